"""Makes texts in several scripts for the golden data. The texts are the same on every run."""
import random

SENTENCES = [
    "What is the capital of France?",
    "The quick brown fox jumps over the lazy dog.",
    "In 1969, 3 astronauts flew 384,400 km to the Moon; 2 of them walked on it.",
    "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n",
    "Die Würde des Menschen ist unantastbar.",
    "Où est la bibliothèque ? L'été dernier, j'ai visité Nîmes.",
    "Москва — столица России, а Волга впадает в Каспийское море.",
    "春眠不觉晓，处处闻啼鸟。",
    "吾輩は猫である。名前はまだ無い。",
    "대한민국의 수도는 서울이다.",
    "القاهرة هي عاصمة مصر.",
    "भारत की राजधानी नई दिल्ली है।",
    "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας.",
    "ירושלים היא עיר עתיקה.",
    "Emoji: 👩‍🚀🚀🌍 and symbols ∑∫√ ≤ ≥ ± €£¥.",
    "SELECT name, COUNT(*) FROM users WHERE age >= 21 GROUP BY name;",
    "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer",
    "{\"key\": [1, 2.5, null, true], \"nested\": {\"a\": \"b\"}}",
]


def text_of_words(rng, num_sentences):
    return " ".join(rng.choice(SENTENCES) for _ in range(num_sentences))


def prompt_texts():
    """Returns every sentence alone, then mixtures of up to a few thousand tokens."""
    rng = random.Random(7)
    return SENTENCES + [text_of_words(rng, n) for n in (2, 3, 5, 8, 12, 16, 24, 32, 48, 64, 80, 96)]
