"""A dataset's results are for one call of Snakemake at a time: a lock in their own folder.

Snakemake's lock lies in the checkout, so that two checkouts on one folder of results do not see
each other's.
"""

import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import TextIO

from bimix.errors import NOT_ALLOWED, InputError
from bimix.outputs import open_own

LOCK = ".lock"


def hold(dataset: str) -> tuple[TextIO | None, str | None]:
    """Hold results/{dataset} until the returned file is closed or this process ends, however it
    ends; a sentence where the file system has no locks.

    The kernel keeps the lock, on NFS the server: what a dead process held is free. A call in the
    same folder is let in, since Snakemake itself keeps those apart that write the same files.
    Errors (InputError): a call in another folder holds it; it cannot be written, or is a link.
    """
    folder = Path("results", dataset)
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = open_own(path)
    except OSError as error:
        if error.errno not in NOT_ALLOWED:
            raise
        sentence = f"{error.filename} cannot be written ({error.strerror}), and results belong there: ask its owner to"
        raise InputError(f"{sentence} allow it, or work in a folder of your own (--directory).") from None
    caller = {"host": socket.gethostname(), "process": os.getpid(), "folder": os.getcwd()}
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        try:
            holder = json.loads(handle.read())
            where = "process {process} on {host}, in {folder}, since {since}".format(**holder)
        except (ValueError, KeyError, TypeError):  # not noted, or not yet whole
            holder, where = {}, "not known which"
        handle.close()
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return None, f"{path} cannot be locked ({error.strerror}): let no other call work in {folder} meanwhile."
        if all(holder.get(name) == caller[name] for name in ("host", "folder")):
            return None, None
        sentence = f"{folder} is held by another call of Snakemake ({where}): two at once would delete each other's"
        raise InputError(f"{sentence} files. Wait for it or stop it.") from None
    handle.truncate(0)
    handle.write(json.dumps(caller | {"since": time.strftime("%Y-%m-%d %H:%M:%S %z")}) + "\n")
    handle.flush()
    return handle, None
