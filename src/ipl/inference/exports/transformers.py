"""A `transformers` folder: a CLIP whose tokenizer knows a token for every trained vector.

Then the whole prompt can be typed, `<ipl1> <ipl2> furry <ipl3> <ipl4> {} .`, as the template of a
zero-shot pipeline.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import quiet_transformers
from ipl.backbone.preprocessing import Preprocessing
from ipl.classifier import PromptClassifier
from ipl.inference.exports.common import (
    check_folder,
    facts,
    refuse_image_prompts,
    refuse_moving_texts,
)
from ipl.learners.learner import Learner
from ipl.prompts.layout import ClassName, FixedText, Soft, WordSlot
from ipl.support.errors import ConfigError, IplError
from ipl.support.files import replace_folder, write_json, write_text

FACTS = "prompt.json"
TOLERANCE = 1e-4  # between our normalised text features and those of the folder
USE = """# A learnt prompt in a CLIP of its own

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


def export_transformers(classifier: PromptClassifier, folder: Path) -> dict[str, Any]:
    """Writes a model folder for transformers and prompt.json; returns what the latter says."""
    check_folder(folder)
    learner = classifier.learner_
    what = "a transformers folder"
    refuse_moving_texts(classifier, what)
    refuse_image_prompts(classifier, what, "use --to onnx, which holds both towers' prompts")
    if type(learner).text_features is not Learner.text_features:
        raise ConfigError(
            f"{learner.name} cannot be exported as {what}: its vectors enter deeper layers, which "
            "no token can."
        )
    if learner.backbone.model.config.model_type != "clip":
        raise ConfigError(
            f"{learner.backbone.name} cannot be exported as {what}: only a CLIP takes new tokens "
            "as they are, and this is no CLIP."
        )
    tokenizer = copy.deepcopy(learner.backbone.tokenizer)
    names = [f"<ipl{number}>" for number in range(1, learner.layout.soft_count + 1)]
    tokenizer.add_tokens(names)
    new = [int(token) for token in tokenizer.convert_tokens_to_ids(names)]
    template = _template(learner, names)
    for name in map(str, classifier.classes_):
        if list(tokenizer(template.format(name))["input_ids"]) != _ids(learner, name, new):
            raise ConfigError(f"The class {name!r} is not read the same inside a sentence.")
    told = {"hypothesis_template": template, "tokens": names, **facts(classifier)}
    with replace_folder(folder) as work, quiet_transformers(local=True):
        model = _extended(learner.backbone, learner.soft.detach(), new)
        model.save_pretrained(work)
        tokenizer.save_pretrained(work)
        write_json(work / "preprocessor_config.json", _processor(learner.backbone.preprocessing))
        shown = {"prompt": classifier.prompt_, "backbone": learner.backbone.name}
        write_text(work / "README.md", USE.format(**shown, count=len(names)))
        told["largest_difference"] = _check(classifier, work, template)
        write_json(work / FACTS, told)
    return told


def _template(learner: Learner, names: list[str]) -> str:
    """Returns the prompt as it is typed; a blank before the full stop keeps it a token apart."""
    vectors, words = iter(names), iter(learner.words)
    pieces: list[str] = []
    for segment in learner.layout.segments:
        if isinstance(segment, Soft):
            pieces += [next(vectors) for _ in range(segment.size)]
        elif isinstance(segment, WordSlot):
            pieces.append(next(words))
        elif isinstance(segment, ClassName):
            pieces.append("{}")
        elif isinstance(segment, FixedText):
            pieces.append(segment.text)
    return " ".join(pieces)


def _ids(learner: Learner, class_name: str, new: list[int]) -> list[int]:
    """Returns the tokens of a class's prompt, vectors and all."""
    backbone = learner.backbone
    vectors, words = iter(new), iter(learner.words)
    ids = list(backbone.opening)
    for segment in learner.layout.segments:
        if isinstance(segment, Soft):
            ids += [next(vectors) for _ in range(segment.size)]
        elif isinstance(segment, WordSlot):
            ids += backbone.tokenize(next(words))
        elif isinstance(segment, ClassName):
            ids += backbone.tokenize(class_name)
        elif isinstance(segment, FixedText):
            ids += backbone.tokenize(segment.text)
    return [*ids, backbone.eos]


def _extended(backbone: Backbone, soft: Tensor, new: list[int]) -> Any:
    """Returns a CLIP in fp32 with rows for the new tokens, which are the last of its vocabulary."""
    from transformers import CLIPModel

    config = copy.deepcopy(backbone.model.config)
    rows = "text_model.embeddings.token_embedding.weight"
    # Old configs say 2, and the highest token is then taken for the end, which ours would be.
    config.text_config.eos_token_id = backbone.eos
    config.text_config.vocab_size = max(new) + 1
    config.dtype = torch.float32
    state = {name: value.float().cpu() for name, value in backbone.model.state_dict().items()}
    known = state[rows]
    table = torch.zeros(max(new) + 1, known.shape[1])
    table[: len(known)] = known[: len(table)]
    table[new] = soft.float().cpu()
    with torch.device("meta"):
        model = CLIPModel(config)
    model.load_state_dict({**state, rows: table}, assign=True)
    return model


def _processor(preprocessing: Preprocessing) -> dict[str, Any]:
    crop = {"height": preprocessing.crop, "width": preprocessing.crop}
    whole = {"shortest_edge": preprocessing.resize}
    return {
        "image_processor_type": "CLIPImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": crop if preprocessing.squash else whole,
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
def _check(classifier: PromptClassifier, folder: Path, template: str) -> float:
    """Returns how far text features of the folder are from ours; raises if that is too far."""
    from transformers import AutoTokenizer, CLIPModel

    model = CLIPModel.from_pretrained(folder, use_safetensors=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [template.format(name) for name in classifier.classes_]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    hidden = model.text_model(**inputs).pooler_output
    found = normalize(model.text_projection(hidden), dim=-1)
    off = float((found - classifier.learner_.text_features().cpu()).abs().max())
    if not off <= TOLERANCE:
        raise IplError(
            f"The folder's text features are off by {off:.2e}; allowed is {TOLERANCE:g}, so "
            "nothing was written."
        )
    return off
