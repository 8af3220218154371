"""`ipl demo`: the whole way, from drawn images to a readable prompt, in two minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ipl.cli.options import DEVICE, JSON, QUIET
from ipl.cli.output import command_line, console, on_interrupt, print_json

if TYPE_CHECKING:
    from ipl.bench.base_to_novel import Outcome

PER_CLASS = 24  # images of each class to draw shots from, and as many to test on
SEEDS = (1, 2, 3)
WORDS = 2
SHORT = {"epochs": 50, "views": 0}  # published: 200 plain, 100 with words; fresh crops
PLAIN, WITH_WORDS = "CoOp", "CoOp + IPL"


def demo(
    folder: Path = typer.Option(Path("ipl-demo"), "--out", help="Where to put everything."),
    device: str = DEVICE,
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Draw images, learn prompts with and without words, and show what came out."""
    from ipl.backbone.loading import load_backbone
    from ipl.bench.base_to_novel import Method, base_to_novel
    from ipl.bench.methods_summary import methods_summary, methods_table
    from ipl.datasets.scenes import scenes_dataset
    from ipl.saving.format import check_target
    from ipl.support.files import write_json
    from ipl.support.progress import Reporter
    from ipl.words.selection import words_table
    from ipl_scenes import CLASSES

    started = time.perf_counter()
    reporter = Reporter(quiet=quiet)
    kept = {"what": f"nothing; {folder} may hold some of the drawn images."}
    methods = [
        Method("zero-shot CLIP"),
        Method(PLAIN, {"learner": "coop", "words": 0, **SHORT}),
        Method(WITH_WORDS, {"learner": "coop", "words": WORDS, **SHORT}),
    ]

    def done(outcome: Outcome) -> None:
        words = f" ({', '.join(outcome.words)})" if outcome.words else ""
        reporter.say(
            f"  seed {outcome.seed}: {outcome.method}{words}: base {100 * outcome.base:.1f}, "
            f"novel {100 * outcome.novel:.1f}"
        )

    with on_interrupt(lambda: f"kept: {kept['what']}"):
        check_target(folder / "run", overwrite=True)
        with reporter.task("Drawing images", 2 * PER_CLASS * len(CLASSES)) as advance:
            dataset = scenes_dataset(folder / "scenes", PER_CLASS, PER_CLASS, progress=advance)
        kept["what"] = f"the images in {folder / 'scenes'}."
        reporter.say(f"Drew {len(dataset.train) + len(dataset.test)} images of 20 classes.")
        backbone = load_backbone("pocket", device)
        result = base_to_novel(dataset, backbone, methods, SEEDS, reporter=reporter, done=done)
        best = result.classifiers[WITH_WORDS, SEEDS[0]]
        run = folder / "run"
        best.save_pretrained(run, overwrite=True)
        assert best.selection_ is not None
        summary = methods_summary(result, [method.name for method in methods])
        report: dict[str, Any] = {
            "summary": summary,
            "outcomes": [outcome.as_dict() for outcome in result.outcomes],
            "words": best.words_,
            "prompt": best.prompt_,
            "selection": best.selection_.as_dict(),
            "saved": {name: str(folder / name) for name in ("scenes", "run", "results.json")},
            "seconds": time.perf_counter() - started,
        }
        write_json(folder / "results.json", report)
    if as_json:
        print_json(report)
        return
    terminal = console()
    image = dataset.test[12 * PER_CLASS].path
    title = (
        f"Accuracy in %, mean ± standard deviation over seeds {', '.join(map(str, SEEDS))}\n"
        f"(drawn scenes, PocketCLIP, 16 shots, {SHORT['epochs']} epochs)"
    )
    terminal.print(title, soft_wrap=True)
    terminal.print(methods_table(summary).to_terminal())
    weight = best.selection_.lambda_
    terminal.print(f"\nThe words of seed {SEEDS[0]}: gain = utility - {weight} * redundancy")
    terminal.print(words_table(best.selection_).to_terminal())
    terminal.print(
        "\nThe prompt: [V] is a trained vector, *word* a chosen word, {cls} the class name\n"
        f"  {best.prompt_}\n\n"
        f"Saved\n"
        f"  the images        {folder / 'scenes'}\n"
        f"  this prompt         {run}\n"
        f"  every number above  {folder / 'results.json'}\n\n"
        f"Next\n"
        f"  {command_line('predict', run, str(image), '--classes', 'castle,bridge,windmill')}\n"
        f"  {command_line('report', run, '--data', folder / 'scenes')}\n"
        f"  {command_line('fit', folder / 'scenes')}\n"
        f"  {command_line('fit', 'YOUR_FOLDER_OF_CLASS_FOLDERS')}\n\n"
        f"{report['seconds']:.0f} s in all.",
        markup=False,
        soft_wrap=True,
    )
