"""Files that a glob far away stands for, asked of the store when the workflow is planned."""

import fsspec

from bimix.errors import InputError


def list_files(pattern: str) -> list[tuple[str, int]]:
    """Addresses and bytes of the files that match `pattern`, in order: hf://datasets/..., s3://,
    gs://, what fsspec knows.
    """
    if pattern.startswith(("http://", "https://")):
        raise InputError(f"{pattern!r} cannot be listed: a web server does not say what it has; name the files.")
    try:
        store, path = fsspec.core.url_to_fs(pattern)
        found = store.glob(path, detail=True)
    except ImportError as error:
        raise InputError(f"{pattern!r} cannot be listed: {str(error).rstrip('.')}; or name the files.") from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise InputError(f"{pattern!r} cannot be listed ({error}); check the address or name the files.") from error
    return sorted(
        (store.unstrip_protocol(name), info["size"]) for name, info in found.items() if info["type"] == "file"
    )
