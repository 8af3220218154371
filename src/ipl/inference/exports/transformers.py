"""`--to transformers`: a folder with a CLIP whose tokenizer has a token for each trained vector.

The whole prompt can then be typed, `<ipl1> <ipl2> furry <ipl3> <ipl4> {} .`, as the template of a
zero-shot pipeline.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import quiet_transformers
from ipl.backbone.preprocessing import Preprocessing
from ipl.classifier import PromptClassifier
from ipl.inference.exports.common import (
    check_export_folder,
    check_exportable,
    linear_layer,
    metadata,
)
from ipl.learners.learner import Learner
from ipl.prompts.bound_prompts import EMPTY_SLOT
from ipl.prompts.layout import ClassName, Soft, WordSlot
from ipl.support.errors import ConfigError, IplError
from ipl.support.files import replace_folder, write_bytes, write_json, write_text

METADATA = "prompt.json"
TOLERANCE = 1e-4  # between our normalised text features and those of the folder
README = """# A learnt prompt in a CLIP of its own

`{prompt}`, learnt with ipl on `{backbone}`: its {count} trained vectors are tokens here.

```python
import json
from transformers import pipeline

prompt = json.load(open("prompt.json"))
classify = pipeline("zero-shot-image-classification", model=".")
classify(
    "image.jpg",
    candidate_labels=prompt["classes"],
    hypothesis_template=prompt["hypothesis_template"],
)
```
"""
HEAD = "head.safetensors"
HEAD_README = f"""
This is the prompt alone. For its classes it also has a linear head, which is better on images like
those of its training:

```python
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoImageProcessor, CLIPModel

head, model = load_file("{HEAD}"), CLIPModel.from_pretrained(".")
inputs = AutoImageProcessor.from_pretrained(".")(Image.open("image.jpg"), return_tensors="pt")
hidden = model.vision_model(**inputs).pooler_output
features = torch.nn.functional.normalize(model.visual_projection(hidden), dim=-1)
logits = prompt["logit_scale"] * features @ head["weight"].T + head["bias"]
print(dict(zip(prompt["classes"], logits.softmax(-1)[0].tolist())))
```
"""


def export_transformers(classifier: PromptClassifier, folder: Path) -> dict[str, Any]:
    """Write a CLIP for transformers with prompt.json and a README.md into a new or empty folder.

    A head has no place among tokens: its layer on image features is a file beside them. Returns the
    content of prompt.json; "hypothesis_template" is the template of the pipeline. Raises IplError
    if the learner or the backbone cannot be exported, or the folder's text features are not ours.
    """
    check_export_folder(folder)
    learner = classifier.learner_
    target = "a transformers folder"
    check_exportable(classifier, target)
    if type(learner).text_features is not Learner.text_features:
        raise ConfigError(
            f"{learner.name} cannot be exported as {target}: its vectors enter deeper layers, "
            "which tokens cannot."
        )
    if learner.backbone.family != "clip":
        raise ConfigError(
            f"{learner.backbone.name} cannot be exported as {target}: it is not a CLIP of "
            "transformers, and only a CLIP takes new tokens as they are."
        )
    tokenizer = copy.deepcopy(learner.backbone.tokenizer)
    tokens = [f"<ipl{number}>" for number in range(1, learner.layout.soft_count + 1)]
    tokenizer.add_tokens(tokens)
    token_ids = [int(token) for token in tokenizer.convert_tokens_to_ids(tokens)]
    template = _typed(learner, tokens)
    content = {"hypothesis_template": template, "tokens": tokens, **metadata(classifier)}
    readme = README.format(
        prompt=classifier.prompt_, backbone=learner.backbone.name, count=len(tokens)
    )
    head = classifier.head_ is not None
    with replace_folder(folder) as work, quiet_transformers(local=True):
        model = _extended_model(learner.backbone, learner.soft.detach(), token_ids)
        model.save_pretrained(work)
        tokenizer.save_pretrained(work)
        processor = _processor_config(learner.backbone.preprocessing)
        write_json(work / "preprocessor_config.json", processor)
        write_text(work / "README.md", readme + (HEAD_README if head else ""))
        if head:
            weight, bias = linear_layer(classifier)
            write_bytes(work / HEAD, save({"weight": weight.contiguous(), "bias": bias}))
        content["largest_difference"] = _compare(classifier, work, template)
        write_json(work / METADATA, content)
    return content


def _typed(learner: Learner, tokens: list[str]) -> str:
    """The prompt as it is typed, {} for the class name."""
    vectors, words, after_name = iter(tokens), iter(learner.words), learner.layout.after_name
    pieces: list[str] = []
    for segment in learner.layout.segments:
        if isinstance(segment, Soft):
            pieces += [next(vectors) for _ in range(segment.size)]
        elif isinstance(segment, WordSlot):
            pieces.append(next(words, EMPTY_SLOT))
        elif isinstance(segment, ClassName):
            pieces.append("{}" + (after_name.text if after_name else ""))
        elif segment is not after_name:
            pieces.append(segment.text)
    return " ".join(pieces)


def _extended_model(backbone: Backbone, soft: Tensor, token_ids: list[int]) -> Any:
    """A CLIP in fp32 with rows for the new tokens, the last ones of its vocabulary."""
    from transformers import CLIPModel

    config = copy.deepcopy(backbone.model.config)
    rows = "text_model.embeddings.token_embedding.weight"
    # Old configs say 2, which makes the highest token the end of the text; ours would be that.
    config.text_config.eos_token_id = backbone.eos
    config.text_config.vocab_size = max(token_ids) + 1
    config.dtype = torch.float32
    state = {name: value.float().cpu() for name, value in backbone.model.state_dict().items()}
    old_table = state[rows]
    table = torch.zeros(max(token_ids) + 1, old_table.shape[1])
    table[: len(old_table)] = old_table[: len(table)]
    table[token_ids] = soft.float().cpu()
    with torch.device("meta"):
        model = CLIPModel(config)
    model.load_state_dict({**state, rows: table}, assign=True)
    return model


def _processor_config(preprocessing: Preprocessing) -> dict[str, Any]:
    crop = {"height": preprocessing.crop, "width": preprocessing.crop}
    shortest_edge = {"shortest_edge": preprocessing.resize}
    return {
        "image_processor_type": "CLIPImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": crop if preprocessing.squash else shortest_edge,
        "resample": int(preprocessing.resample),
        "do_center_crop": not preprocessing.squash,
        "crop_size": crop,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(preprocessing.mean),
        "image_std": list(preprocessing.std),
    }


@torch.no_grad()
def _compare(classifier: PromptClassifier, folder: Path, template: str) -> float:
    """How far the folder's text features are from ours; raises if they are too far off."""
    from transformers import AutoTokenizer, CLIPModel

    model = CLIPModel.from_pretrained(folder, use_safetensors=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    texts = [template.format(name) for name in classifier.classes_]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    hidden = model.text_model(**inputs).pooler_output
    theirs = normalize(model.text_projection(hidden), dim=-1)
    difference = float((theirs - classifier.learner_.text_features().cpu()).abs().max())
    if not difference <= TOLERANCE:
        raise IplError(
            f"The text features of the folder differ from ours by {difference:.2e}; at most "
            f"{TOLERANCE:g} is allowed, so nothing was written. Empty slots that hold zeros, and "
            "class names with other tokens inside a sentence, cannot be typed."
        )
    return difference
