"""Sharding of models that do not fit on one device with their gradients and moments: each process
keeps a part of every weight, and gathers a block's weights only while it computes with them
(`fully_shard` of torch, FSDP2).

Weights are gathered in fp32, so that the losses are those of DistributedDataParallel; bf16 would
halve the traffic. Checkpoints hold whole tensors, so that a run can resume with any number of
processes, sharded or not.
"""

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from bimix.errors import InputError
from bimix.model.transformer import Transformer
from bimix.training.session import Session

BYTES = 20  # of a parameter without sharding: weight, gradient, two moments, what gradients are sent from
MOST = 0.7  # of a device's memory: the rest is for the rows


def is_needed(session: Session, requested: str) -> bool:
    """Whether a run is sharded, `requested` as `yes`, `no`, or `auto`: if the parameters alone take
    more than MOST of a GPU; never with one process. Errors: an optimizer that needs whole matrices.
    """
    accelerator = session.accelerator
    if accelerator.num_processes == 1 or requested == "no":
        return False
    if requested == "auto":
        on_gpu = accelerator.device.type == "cuda"
        memory = torch.cuda.get_device_properties(accelerator.device).total_memory if on_gpu else float("inf")
        if BYTES * session.shape.parameters <= MOST * memory:
            return False
    if session.recipe.optimizer == "muon":
        raise InputError(
            "launch, shard: Muon makes whole matrices orthogonal, of which a sharded model keeps parts; use AdamW, or"
            " `shard: no` where the device's memory holds the model."
        )
    return True


def shard(plain: Transformer, session: Session) -> None:
    """Shard the weights of a model over all processes, in place: each block separately, and the
    rest as one. Blocks are compiled separately, since weights are gathered between them.
    """
    mesh = init_device_mesh(session.accelerator.device.type, (session.accelerator.num_processes,))
    for block in plain.blocks:
        if session.compiled:
            block.compile(dynamic=False)
        fully_shard(block, mesh=mesh)
    fully_shard(plain, mesh=mesh)


def cut_moments(optimizer: torch.optim.Optimizer, state: dict) -> dict:
    """This process's part of each tensor of a saved state, for a sharded optimizer."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for number, own in state["state"].items():
        weight = weights[number]
        for name, value in own.items():
            if value.shape == weight.shape:
                here = value.to(weight.device)
                own[name] = distribute_tensor(here, weight.device_mesh, weight.placements, src_data_rank=None)
    return state


def whole(thing: object, keep: bool) -> object:
    """`thing` with each sharded tensor gathered: on the CPU if `keep`, else None. All processes
    must call it.
    """
    if isinstance(thing, dict):
        return {name: whole(value, keep) for name, value in thing.items()}
    if isinstance(thing, list):
        return [whole(value, keep) for value in thing]
    if isinstance(thing, DTensor):
        gathered = thing.full_tensor()
        return gathered.detach().cpu() if keep else None
    return thing


def whole_model(plain: Transformer, keep: bool) -> Transformer | None:
    """A copy of a sharded model with whole weights on the CPU; None without `keep`."""
    weights = whole(plain.state_dict(), keep)
    if not keep:
        return None
    with torch.device("meta"):
        copy = Transformer(plain.shape, loss_chunk=plain.loss_chunk)
    copy.load_state_dict(weights, assign=True)
    return copy


def norm_of(norm: Tensor) -> Tensor:
    """A gradient norm as one number on the device, sharded or not."""
    return norm.full_tensor() if isinstance(norm, DTensor) else norm
