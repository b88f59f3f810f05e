"""Tries mteb through its own clients of /v1/embeddings and /v1/rerank. This script makes up its tasks (retrieval, similarity,
classification and reranking), because it cannot download data sets."""
import os
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", CUDA_VISIBLE_DEVICES="")
home = tempfile.TemporaryDirectory()
os.environ.update(HF_HOME=home.name, MTEB_CACHE=home.name)

import mteb  # noqa: E402  mteb reads its environment when it is imported
from datasets import Dataset, DatasetDict
from mteb.abstasks import AbsTaskClassification, AbsTaskRetrieval, AbsTaskSTS
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import OpenAIAPIEncodeWrapper, OpenAIAPIRerankWrapper

from trials import KEY, Trials, expect

trials = Trials("mteb", "sentence-transformers", "torch")
FACTS = {
    "rain": "It has rained in the mountains since the morning, and the rivers rise.",
    "bread": "Bread is made of flour, water, salt and yeast; it is baked in a hot oven.",
    "violin": "A violin has four strings, which are played with a bow.",
    "whale": "The blue whale is the largest animal that has ever lived in the sea.",
}
LONG = "The train left the station and came back. " * 400  # more tokens than the model's context has


def about(kind, name, score):
    """Returns mteb's description of a task."""
    return TaskMetadata(
        name=name, type=kind, main_score=score, description="A task made up for a test of servers.", reference=None, dataset={"path": "none", "revision": "1"},
        category="t2t", eval_splits=["test"], eval_langs=["eng-Latn"], date=("2026-01-01", "2026-01-02"), domains=[], task_subtypes=[], license="mit",
        annotations_creators="derived", dialect=[], sample_creation="created", modalities=["text"], bibtex_citation="")


def split(ranked):
    """Returns FACTS and LONG as documents. The query for a fact is the beginning of its text. ranked: also lists FACTS for reranking."""
    ids = list(FACTS)
    return RetrievalSplitData(
        queries=Dataset.from_list([{"id": f"q-{name}", "text": " ".join(FACTS[name].split()[:5])} for name in ids]),
        corpus=Dataset.from_list([{"id": name, "text": text, "title": ""} for name, text in FACTS.items()] + [{"id": "train", "text": LONG, "title": ""}]),
        relevant_docs={f"q-{name}": {name: 1} for name in ids},
        top_ranked={f"q-{name}": ids for name in ids} if ranked else None)


class Retrieval(AbsTaskRetrieval):
    metadata = about("Retrieval", "MadeUpRetrieval", "ndcg_at_10")
    ranked = False

    def load_data(self, num_proc=None, **_):
        self.dataset, self.data_loaded = {"default": {"test": split(self.ranked)}}, True


class Reranking(Retrieval):
    metadata = about("Reranking", "MadeUpReranking", "ndcg_at_10")
    ranked = True


class Similarity(AbsTaskSTS):
    metadata = about("STS", "MadeUpSimilarity", "cosine_spearman")
    min_score, max_score = 0, 2

    def load_data(self, num_proc=None, **_):
        texts = list(FACTS.values())
        rows = [(texts[0], texts[0], 2), (texts[0], "It has rained in the hills since noon, and the rivers rise.", 1), (texts[0], texts[2], 0), (texts[1], texts[1], 2)]
        first, second, scores = zip(*rows)
        self.dataset = DatasetDict({"test": Dataset.from_dict({"sentence1": first, "sentence2": second, "score": scores})})
        self.data_loaded = True


class Classification(AbsTaskClassification):
    metadata = about("Classification", "MadeUpClassification", "accuracy")
    samples_per_label, n_experiments = 4, 2

    def load_data(self, num_proc=None, **_):
        texts = [f"{FACTS[name]} {number}" for name in ("bread", "whale") for number in range(8)]
        rows = Dataset.from_dict({"text": texts, "label": [0] * 8 + [1] * 8})
        self.dataset, self.data_loaded = DatasetDict({"train": rows, "test": rows}), True


def score(model, task, **settings):
    """Returns the task's main score."""
    result = mteb.evaluate(model, task, cache=None, co2_tracker=False, show_progress_bar=False, **settings)
    return result.task_results[0].get_score()


def encoder():
    """Returns mteb's client of /v1/embeddings. It sends texts as `input`; by default it would send conversations, a form that only vLLM
    accepts."""
    return OpenAIAPIEncodeWrapper(trials.url, trials.model, api_key=KEY, use_chat_template=False)


for batch in (1, 32):
    @trials(f"retrieval, {batch} texts at once")
    def _(batch=batch):
        found = score(encoder(), Retrieval(), encode_kwargs={"batch_size": batch})
        expect(found > 0.9, found)
        return f"ndcg@10 {found:.3f}"


@trials("similarity of texts")
def _():
    found = score(encoder(), Similarity())
    expect(found > 0.9, found)
    return f"Spearman {found:.3f}"


@trials("classification by embeddings")
def _():
    found = score(encoder(), Classification())
    expect(found > 0.9, found)
    return f"accuracy {found:.3f}"


@trials("reranking, by /v1/rerank")
def _():
    found = score(OpenAIAPIRerankWrapper(trials.url, trials.model, api_key=KEY), Reranking())
    expect(found > 0.9, found)
    return f"ndcg@10 {found:.3f}"


trials.end()
