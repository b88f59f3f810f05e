"""fetch_model.py PACKAGES ORG/NAME [FILE]: fetches a model from the Hugging Face hub into its cache and prints the path
of the folder or of the one file. deploy/fetch-model runs this program after it has put the client library into the folder PACKAGES.
An interrupted download continues. Each file is compared with its hash on the hub; a damaged file is removed."""
import hashlib
import os
import re
import sys
import time

sys.path.insert(0, sys.argv[1])
from huggingface_hub import HfApi, file_download, hf_hub_download, list_repo_files, snapshot_download

# The safetensors files are served; a repository often has the same weights in other forms, too
SERVED = ["*.json", "*.safetensors", "*.jinja", "*.model"]
PART = re.compile(r"-\d{5}-of-\d{5}(?=\.gguf$)")
COMMIT = re.compile(r"[0-9a-f]{40}")
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # git's SHA-1 of a small file, SHA-256 of a large one


def plain(text):
    """Returns the text with all characters spelled out that would control a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def distrust_the_hub():
    """Makes the client refuse hub answers whose hashes are malformed. The client names files in its cache by a file's hash and the
    commit's; a hub that sends `../../x` or `/etc/x` instead could have files written there."""
    read_metadata, read_repository = file_download.get_hf_file_metadata, HfApi.repo_info

    def metadata(*args, **kwargs):
        found = read_metadata(*args, **kwargs)
        if not HASH.fullmatch(found.etag or ""):
            raise ValueError(f"the hub gave no hash of a file, but {found.etag!r}; nothing was written")
        if not COMMIT.fullmatch(found.commit_hash or ""):
            raise ValueError(f"the hub named no commit of a file, but {found.commit_hash!r}; nothing was written")
        return found

    def repository(*args, **kwargs):
        found = read_repository(*args, **kwargs)
        if not COMMIT.fullmatch(found.sha or ""):
            raise ValueError(f"the hub named no commit, but {found.sha!r}; nothing was written")
        return found

    file_download.get_hf_file_metadata, HfApi.repo_info = metadata, repository


def is_of_kind(name, kind):
    """True if the name of a GGUF file contains `kind`, a kind of quantisation such as Q4_K_M, as a word."""
    stem = PART.sub("", name).removesuffix(".gguf")
    return re.search(rf"(^|[-./]){re.escape(kind)}($|[-.])", stem, re.IGNORECASE) is not None


def patterns(repository, kind=None):
    """Returns the names, or patterns, of the files to fetch: the model in safetensors, or the only model of a repository of GGUF files,
    whole or split. With `kind`, a kind of quantisation, only models of that kind count."""
    names = list_repo_files(repository)
    models = [name for name in names if name.endswith(".gguf") and "mmproj" not in os.path.basename(name)]
    if kind:
        there, models = models, [name for name in models if is_of_kind(name, kind)]
        if len({PART.sub("", name) for name in models}) != 1:
            raise ValueError(f"it has {'several' if models else 'no'} GGUF models of {kind}; give one of: {', '.join(sorted(models or there)) or 'none'}")
        return models
    if any(name.endswith(".safetensors") for name in names) or not models:
        return SERVED
    if len({PART.sub("", name) for name in models}) > 1:
        raise ValueError(f"it has several GGUF models; fetch one of them: fetch-model {repository} FILE, of {', '.join(sorted(models))}")
    return models


def digest(path, name):
    """Returns the file's hash in the form of its name: SHA-256 of large files, git's SHA-1 of others; None if the name has the form of
    neither hash."""
    if not HASH.fullmatch(name):
        return None
    large = len(name) == 64
    hashed = hashlib.sha256() if large else hashlib.sha1(b"blob %d\0" % os.path.getsize(path))
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            hashed.update(piece)
    return hashed.hexdigest()


def check(place, began):
    """Compares the files that were fetched since `began` with the hashes that name them in the cache. Removes a file that differs."""
    paths = [place] if os.path.isfile(place) else [os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names]
    for path in paths:
        blob = os.path.realpath(path)
        name = os.path.basename(blob)
        if os.stat(blob).st_mtime < began:
            continue
        found = digest(blob, name)
        if found is None:  # a file system without links has the files themselves, under their own names
            print(f"fetch-model: {plain(os.path.basename(path))}: the cache does not keep its hash, so it was not checked", file=sys.stderr)
        elif found != name:
            os.remove(path)
            if os.path.exists(blob):
                os.remove(blob)
            raise ValueError(f"{os.path.basename(path)} is damaged: its hash is {found}, not {name}; it was removed, try again")


def main(repository, file=None):
    try:
        distrust_the_hub()
        began = time.time() - 2  # some file systems store whole seconds only
        name, _, kind = repository.partition(":")
        place = hf_hub_download(name, file) if file else snapshot_download(name, allow_patterns=patterns(name, kind))
        check(place, began)
        print(place)
    except Exception as error:  # an error of the network, the hub or the name: one line says which
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        sys.exit(plain(f"fetch-model: {repository}: {reason}"))


main(*sys.argv[2:])
