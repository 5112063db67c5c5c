"""A tokenizer of bytes and 400 documents, the same on every host: make_text.py FOLDER."""

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
alphabet = ["<|endoftext|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
tokenizer = Tokenizer(models.BPE({letter: n for n, letter in enumerate(alphabet)}, []))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens(["<|endoftext|>"])
tokenizer.save(str(folder / "tokenizer.json"))
end = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
settings = {"tokenizer_class": "PreTrainedTokenizerFast", **end}
(folder / "tokenizer_config.json").write_text(json.dumps(settings))
source = random.Random(0)
with (folder / "documents.jsonl").open("w") as documents:
    for _ in range(400):
        numbers = sorted(source.sample(range(100), 20))
        documents.write(json.dumps({"text": " ".join(map(str, numbers))}) + "\n")
