"""Copy a tokenizer from a file or from the Hugging Face hub.

a tokenizer.json, or the name of a repository that has one -> tokenizer.json, and next to it
tokenizer.source.json (its origin: the name, the requested revision, the commit that the hub
returned; the digest)
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from tokenizers import Tokenizer

from bimix.digests import check_fetched, digest_file
from bimix.errors import InputError, run
from bimix.outputs import replacing, write_json


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=json.loads, required=True, help='{"file"} or {"hub", "revision"}, JSON')
    parser.add_argument("--end-of-text", required=True, help="token that is put after each document")
    parser.add_argument("--out", type=Path, required=True, help="tokenizer.json to write")
    options = parser.parse_args(argv)

    source = options.source
    path = Path(source["file"]) if "file" in source else download(source["hub"], source.get("revision"))
    if not path.is_file():
        raise InputError(f"There is no tokenizer file {path}; set tokenizer.file to a tokenizer.json.")
    check_fetched(path)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{path} is no tokenizer.json that the tokenizers library reads ({error}).") from error
    if tokenizer.token_to_id(options.end_of_text) is None:
        raise InputError(f"{path} has no token {options.end_of_text!r}; set end_of_text to one that ends documents.")
    origin = {"digest": digest_file(path)}
    if "file" in source:
        origin["file"] = source["file"]
    else:
        origin |= {"hub": source["hub"], "revision": source.get("revision"), "commit": hub_commit(path)}
    # no output of the rule: a dataset that was made before has none, and is not made again for it
    write_json(options.out.with_name("tokenizer.source.json"), origin)
    with replacing(options.out) as temporary:
        shutil.copyfile(path, temporary)


def download(name: str, revision: str | None) -> Path:
    """Path of the hub's tokenizer.json of `name` at a revision (None: main), possibly cached."""
    try:
        return Path(hf_hub_download(name, "tokenizer.json", revision=revision))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        at = f" at {revision!r}" if revision else ""
        raise InputError(
            f"The hub gave no tokenizer.json for {name!r}{at} ({error}); check tokenizer.hub and the network, "
            f"or fetch the file by hand and set tokenizer.file."
        ) from error


def hub_commit(path: Path | str) -> str | None:
    """The commit of a file in the hub's local cache: .../snapshots/{commit}/{file}."""
    parts = Path(path).parts
    return parts[parts.index("snapshots") + 1] if "snapshots" in parts[:-1] else None


if __name__ == "__main__":
    sys.exit(run(main))
