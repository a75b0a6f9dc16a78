"""A tokenizer whose tokens are words, laid down as benchmark clients load one: nothing is fetched."""

from __future__ import annotations

from pathlib import Path

WORDS = 2_000


def write_word_tokenizer(folder: Path) -> Path:
    """`w0 w1 ...` are tokens 0, 1, ...; every other word counts as the first of them."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"w{number}": number for number in range(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(str(folder))
    return folder
