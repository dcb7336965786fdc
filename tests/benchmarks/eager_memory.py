"""The memory that an update of an uncompiled model takes, by a formula."""

from bimix.model.transformer import Shape


def eager_peak(
    shape: Shape,
    rows: int,
    row_length: int,
    loss_chunk: int | None,
    precision: str,
    several: bool = False,
) -> int:
    """Bytes that an uncompiled model, its gradients and AdamW's moments have at once at most, while
    `rows` of `row_length` tokens pass forward and backward, the gradients of earlier rows kept.

    What lives when the loss's gradient is taken: 16 bytes a parameter (weights, gradients, two
    moments) and, in bf16, 2 for the cast ones. Of each token, with b bytes a number (2 in bf16,
    else 4), and each layer of width d with h heads: (8 + 17 b) d for the stream before both norms
    (8) and both norms' outputs, the projection, turned queries and keys, attention before and
    after its copy, and the MLP before and after GELU (17 b), 16 for the norms' statistics and
    4 h for attention's sums. Of each token's V scores 12 V: their logarithms, and two gradients.
    With a `loss_chunk` of c tokens 12 c V in bf16, 8 c V else, and the head's gradient, 4 V d.
    A compiled model needs less, as it keeps less of what can be taken again. Of `several`
    processes each has 4 bytes a parameter more: the bucket that gradients are sent from.
    """
    width, head, number = shape.width, shape.padded_vocabulary, 2 if precision == "bf16" else 4
    cast = 2 if precision == "bf16" else 0
    tokens = rows * (row_length - 1)
    layers = shape.layers * ((8 + 17 * number) * width + 16 + 4 * shape.heads)
    fixed = (16 + cast + (4 if several else 0)) * shape.parameters
    if loss_chunk is None:
        return fixed + tokens * (layers + (4 + number) * width + 20 + 12 * head)
    chunk = min(loss_chunk, tokens)
    # the first chunk of all has no scores before it that are still there
    scores = (8 + 2 * cast if tokens > loss_chunk else 8) * chunk * shape.vocabulary
    forward = fixed + 4 * head * width + scores + tokens * (layers + (12 + cast) * width + 32)
    backward = fixed + (8 - cast) * head * width + tokens * (layers + 12 * width + 32)
    return max(forward, backward)
