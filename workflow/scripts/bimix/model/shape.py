"""The size of a model, without torch, since settings and planning read it."""

from bimix.blocks import Block, Count, Faults, need

ROTARY_SHARE = 0.25
VOCABULARY_MULTIPLE = 128
UNKNOWN_VOCABULARY = 50_304  # of a tokenizer that is not read before the first job: GPT-NeoX's, padded


class ShapeKeys(Block):
    """The shape of a model in a config."""

    layers: Count = need("Blocks of the transformer.")
    width: Count = need("Width of the residual stream: numbers that represent a token.")
    heads: Count = need("Heads of attention; the width of each is a multiple of 8.")

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def rotary_width(self) -> int:
        return int(self.head_width * ROTARY_SHARE)

    def faults(self) -> Faults:
        """What the rotary embedding does not allow."""
        width, heads = self.width, self.heads
        if width % heads:
            yield "width", f"{width} is not a multiple of heads, {heads}."
        elif self.rotary_width % 2 or not self.rotary_width:
            sentence = f"a quarter of the width of a head, {width} / {heads} = {self.head_width}, must be even for the"
            yield "width", f"{sentence} rotary embedding; take a multiple of {8 * heads}."


class Shape(ShapeKeys):
    """A model's size: `layers` blocks of `width` with `heads` heads over `vocabulary` ids."""

    vocabulary: Count

    @property
    def padded_vocabulary(self) -> int:
        """Rows of the embedding: a multiple of 128, for the matrix units."""
        return -(-self.vocabulary // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE

    @property
    def parameters(self) -> int:
        """Trained parameters; the padded embedding, which is tied, counts once."""
        block = 12 * self.width**2 + 13 * self.width
        return self.padded_vocabulary * self.width + self.layers * block + 2 * self.width

    def flops_per_token(self, sequence_length: int) -> int:
        """FLOPs of one token, forward and backward: 6N + 12 L d T (PaLM, Chowdhery et al. 2022)."""
        return 6 * self.parameters + 12 * self.layers * self.width * sequence_length
