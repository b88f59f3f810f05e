"""fetch_model.py PACKAGES ORG/NAME [FILE]: brings a model from the Hugging Face hub into its cache and prints where it lies
there: the folder, or the one file. Run by deploy/fetch-model, which has put the client library into the folder PACKAGES."""
import sys

sys.path.insert(0, sys.argv[1])
from huggingface_hub import hf_hub_download, snapshot_download

# Weights are served from safetensors; a repository often has the same weights in other forms, too.
SERVED = ["*.json", "*.safetensors", "*.jinja", "*.model"]


def main(repository, file=None):
    try:
        print(hf_hub_download(repository, file) if file else snapshot_download(repository, allow_patterns=SERVED))
    except Exception as error:  # of the network, the hub or the name: one line says which
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        sys.exit(f"fetch-model: {repository}: {reason}")


main(*sys.argv[2:])
