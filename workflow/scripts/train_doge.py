"""Train DoGE's proxy, from the start or from its last checkpoint.

token index of both splits, shape, recipe -> mixture.json, path.parquet,
losses.parquet, run.json
"""

import sys
from functools import partial

from bimix.errors import run
from bimix.reweighting.doge import MU, SCORE_LIMIT, Doge, extra_flops, held_mix, reserve
from bimix.reweighting.proxy import find_mixture, proxy_parser
from bimix.training.session import Session


def main(argv: list[str] | None = None) -> int:
    options = proxy_parser(__doc__).parse_args(argv)
    session = Session(options)
    mix = held_mix(session)
    settings = {"doge.regularization": MU, "doge.score_limit": SCORE_LIMIT, "doge.target": "mix"}

    def method() -> partial:
        return partial(Doge, gradients=reserve(session), mix=mix)

    return find_mixture(session, options, method, settings, "score", lambda proxy: extra_flops(session, mix))


if __name__ == "__main__":
    sys.exit(run(main))
