"""The report on one saved run: its settings, its parts and the document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.display.document import Block, Document, Paragraph, QuestionAnswer, Section
from ipl.display.formatting import listed, ordinal, percent, range_of_percent, several
from ipl.explain.accuracy import Outcomes, evaluate_outcomes, novel_sentence, outcomes_section
from ipl.explain.baseline import (
    TRAIN,
    Baseline,
    read_baseline,
    read_baseline_result,
    train_baseline,
)
from ipl.explain.chosen_words import WordFacts, word_facts, words_section
from ipl.explain.doubtful_images import (
    DoubtfulImages,
    doubtful_images_section,
    find_doubtful_images,
)
from ipl.explain.loaded_run import LoadedRun, RunImages, load_run, read_run_images
from ipl.explain.provenance import Provenance, provenance_of, provenance_section
from ipl.explain.random_words import (
    RandomComparison,
    Replacement,
    compare_with_random_words,
    draw_random_words,
    held_out_sentences,
    random_words_blocks,
)
from ipl.explain.stability import RESAMPLES, Stability, resample_words, stability_blocks
from ipl.explain.vectors import Vectors, describe_vectors, vectors_section
from ipl.explain.word_effects import (
    WordEffects,
    dependence_sentences,
    effects_section,
    word_effects,
)
from ipl.metrics import Score, score
from ipl.prompts.layout import prompt_pieces
from ipl.saving.format import read_run
from ipl.saving.run_folder import find_run
from ipl.support.errors import ConfigError
from ipl.support.files import check_exists
from ipl.support.progress import SILENT, Reporter
from ipl.training.comparison import (
    ABOUT_INTERVALS,
    LINEAR_PROBE,
    NO_IMAGES,
    PLAIN_LEARNER,
    WITHOUT_WORDS,
    ZERO_SHOT,
    Comparison,
)
from ipl.words.pool import read_word_list
from ipl.words.selection import certainty_sentences

IMAGES = 2000  # held-out images that a report looks at
FOOT = (
    f"Written by ipl {__version__}. The words lower the loss of one backbone on a few images; "
    "they are no explanation of a single decision. What each part means and how it is computed: "
    "docs/report.md in ipl's repository."
)


@dataclass(frozen=True)
class ReportSettings:
    """What a report is asked for.

    Parameters
    ----------
    resamples : int
        How often words are chosen again for other shots; 0: never.
    images : int
        The largest number of held-out images to look at.
    baseline : str, optional
        The learner without words to compare with: "train", or the folder of a saved run. Default:
        none.
    strict : bool
        Whether an unreadable image is an error rather than left out.

    Raises
    ------
    ConfigError
        If `resamples` is negative or `images` is less than 1.
    """

    resamples: int = RESAMPLES
    images: int = IMAGES
    baseline: str | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if self.resamples < 0:
            raise ConfigError(f"resamples is {self.resamples}; it must be 0 or more.")
        if self.images < 1:
            raise ConfigError(f"images is {self.images}; it must be 1 or more.")


@dataclass(frozen=True)
class MissingPart:
    """A part that a report does not have, and why."""

    part: str
    why: str


@dataclass(frozen=True)
class Analysis:
    """Everything a report shows; what is None is named in `missing`."""

    run: LoadedRun
    words: tuple[WordFacts, ...]
    vectors: Vectors
    provenance: Provenance
    missing: tuple[MissingPart, ...]
    baseline: Baseline | None = None
    baseline_vectors: Vectors | None = None
    test: Score | None = None
    outcomes: Outcomes | None = None
    doubtful_images: DoubtfulImages | None = None
    effects: WordEffects | None = None
    random_words: RandomComparison | None = None
    stability: Stability | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns what a reader must know before believing the results."""
        images = self.run_images.notes if self.run_images else ()
        comparison = self.comparison.notes if self.comparison else ()
        return (*self.run.notes, *images, *comparison)

    @property
    def run_images(self) -> RunImages | None:
        """Returns the images it was computed on."""
        return self.run.run_images

    @property
    def comparison(self) -> Comparison | None:
        """Returns the prompt beside its baselines: computed now, else as saved."""
        return self.outcomes.comparison if self.outcomes else self.run.result.comparison


def analyse_run(
    folder: Path,
    data: Path | None = None,
    settings: ReportSettings | None = None,
    backbone: str | Backbone | None = None,
    device: str = "auto",
    words_file: Path | None = None,
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> Analysis:
    """Compute everything that a report shows of a saved run.

    Parameters
    ----------
    folder : Path
        The folder of the run, or owner/name on the Hugging Face hub.
    data : Path, optional
        The dataset that the run was trained on. On other labelled images of its classes, what needs
        the training images is left out; without any, only what is saved with the run is shown.
    settings : ReportSettings, optional
        What the report is asked for.
    backbone : str or Backbone, optional
        Where the backbone's weights are now. Default: as saved with the run.
    device : str
        The device to load the backbone on.
    words_file : Path, optional
        The word list that the run chose from, if it was not the bundled one.
    cache : bool
        Whether image features and word searches are read from and written to the disk cache.
    reporter : Reporter
        Receives progress and messages.

    Returns
    -------
    Analysis
        The parts of the report; those that cannot be computed are None and named in `missing`.

    Raises
    ------
    DataError
        If the data does not exist, has no class of the run, or no image that was not used in
        training.
    ConfigError
        If the baseline is to be trained without data, or is not a run without words of the same
        classes.
    """
    settings = settings or ReportSettings()
    check_arguments(folder, data, settings, words_file)
    run = load_run(folder, backbone, device, words_file, cache, reporter)
    baseline = None
    if settings.baseline not in (None, TRAIN):
        baseline = read_baseline(run, Path(settings.baseline))
    if data is not None:
        run_images = read_run_images(run, data, settings.images, settings.strict, reporter)
        run = replace(run, run_images=run_images)
        if settings.baseline == TRAIN and run.learner.layout.slots:
            if run_images.shots is None:
                raise ConfigError(
                    f"plain is 'train'; that needs the images that {folder} was trained on, and "
                    f"{data} does not have all of them: give --plain RUN."
                )
            baseline = train_baseline(run, run_images.shots, reporter)
    analysis = Analysis(
        run=run,
        words=word_facts(run.selection) if run.selection else (),
        vectors=describe_vectors(run.learner, run.result.config, run.candidates),
        provenance=provenance_of(
            run,
            None if data is None else str(data),
            None if words_file is None else str(words_file),
        ),
        missing=_missing_parts(run, settings, baseline),
        baseline=baseline,
        baseline_vectors=describe_vectors(baseline.learner, baseline.config, run.candidates)
        if baseline
        else None,
    )
    if run.run_images is None:
        return analysis
    return _with_images(analysis, run.run_images, settings, reporter)


def check_arguments(
    folder: Path,
    data: Path | None = None,
    settings: ReportSettings | None = None,
    words_file: Path | None = None,
) -> None:
    """Raises an error for wrong arguments of `analyse_run`, before anything is loaded."""
    baseline = None if settings is None else settings.baseline
    result = read_run(find_run(folder))
    if data is not None:
        check_exists(data)
    if baseline == TRAIN and data is None:
        raise ConfigError("plain is 'train'; that needs the run's images: give --data.")
    if baseline not in (None, TRAIN):
        read_baseline_result(Path(baseline), result, folder)
    if words_file is not None:
        read_word_list(words_file)


def _with_images(
    analysis: Analysis, run_images: RunImages, settings: ReportSettings, reporter: Reporter
) -> Analysis:
    """Returns the analysis with the parts that need images."""
    run, selection = analysis.run, analysis.run.selection
    shots = run_images.shots  # None in other data than that of the training
    predictions = run.learner.log_probabilities(run_images.features)
    test = score(predictions, run_images.test.labels)
    analysis = replace(
        analysis,
        test=test,
        outcomes=evaluate_outcomes(
            run, run_images, predictions, analysis.baseline, settings.strict, reporter
        ),
        doubtful_images=find_doubtful_images(run, run_images, predictions),
    )
    if not run.words:
        return analysis
    random_draws = draw_random_words(run)
    effects = word_effects(run, run_images, predictions, random_draws, reporter)
    analysis = replace(analysis, effects=effects)
    if selection is None or run.pool is None:
        return analysis
    random_words = compare_with_random_words(
        run,
        run_images,
        selection,
        random_draws.frequency,
        Replacement(run.words, test),
        () if effects is None else effects.replacements,
        reporter,
    )
    stability = None
    if shots is not None and settings.resamples:
        stability = resample_words(
            run, run_images.dataset, shots, selection, settings.resamples, reporter
        )
    return replace(analysis, random_words=random_words, stability=stability)


def _missing_parts(
    run: LoadedRun, settings: ReportSettings, baseline: Baseline | None
) -> tuple[MissingPart, ...]:
    missing = []
    if run.run_images is None:
        missing.append(
            MissingPart(
                "what each word does, random words, stability, confusion, calibration, accuracy",
                "They need images, and a saved run names its data but does not say where it is: "
                "give --data.",
            )
        )
    elif run.run_images.shots is None:
        about_words = ", stability" if run.selection and run.pool else ""
        missing.append(
            MissingPart(
                f"the linear probe, likely label errors, near-duplicates{about_words}",
                "They need the images that the prompt was trained on, and the data does not have "
                "all of them.",
            )
        )
    if not run.words:
        missing.append(MissingPart("everything about words", run.result.config.about_words))
    elif run.selection is None:
        missing.append(
            MissingPart(
                "gains, random words, stability",
                run.result.config.about_words,
            )
        )
    elif run.pool is None:
        missing.append(
            MissingPart(
                "random words, stability",
                "The run chose from a list of words that is not the bundled one: give "
                "--words-file.",
            )
        )
    elif run.run_images is None or run.run_images.shots is None:
        pass  # it is among the parts that need images
    elif not settings.resamples:
        missing.append(MissingPart("stability", "No resamples were asked for."))
    if run.learner.layout.slots and baseline is None:
        train = "--plain train, or " if run.run_images is None or run.run_images.shots else ""
        missing.append(
            MissingPart(
                "the learner without words beside this one",
                f"It was not asked for: {train}--plain RUN with a run without words.",
            )
        )
    return tuple(missing)


# -- the document -------------------------------------------------------------------------------


def report_document(analysis: Analysis) -> Document:
    """Lay out a report as a document, which can be written as HTML or Markdown.

    Parameters
    ----------
    analysis : Analysis
        What `analyse_run` computed.

    Returns
    -------
    Document
        The whole report.
    """
    run, result = analysis.run, analysis.run.result
    sections = [words_section(analysis.words, run.selection, result.config.about_words)]
    if analysis.effects is not None and analysis.run_images is not None:
        images = len(analysis.run_images.test.items)
        sections.append(effects_section(analysis.effects, images))
    if (belief := _belief_section(analysis)) is not None:
        sections.append(belief)
    if analysis.outcomes is not None:
        sections.append(outcomes_section(analysis.outcomes))
    if analysis.doubtful_images is not None:
        sections.append(doubtful_images_section(analysis.doubtful_images))
    sections.append(vectors_section(analysis.vectors, analysis.baseline_vectors))
    sections.append(provenance_section(analysis.provenance, analysis.run_images))
    if analysis.missing:
        paragraphs = tuple(
            Paragraph(f"{m.part[0].upper()}{m.part[1:]}: {m.why}") for m in analysis.missing
        )
        parts = f"{'; '.join(missing.part for missing in analysis.missing)}."
        summary = f"{parts[0].upper()}{parts[1:]}"
        title = "What this report does not have"
        sections.append(Section("missing", title, paragraphs, summary))
    comparison = analysis.comparison
    return Document(
        title=f"What “{run.folder.resolve().name}” has learnt",
        subtitle=f"{result.config.learner} on {result.backbone['name']}, {result.data}",
        prompt=prompt_pieces(result.prompt),
        lead=(_how_to_read(analysis),),
        warnings=analysis.notes,
        sections=tuple(sections),
        foot=FOOT,
        answers=(
            QuestionAnswer("Is it better?", " ".join(_is_better(analysis))),
            QuestionAnswer("Do the words matter?", " ".join(_words_matter(analysis))),
            QuestionAnswer("How sure is that?", " ".join(_how_sure(analysis))),
        ),
        table=comparison.table() if comparison else None,
    )


def _belief_section(analysis: Analysis) -> Section | None:
    """Returns where the words stand among random ones, and whether they come back."""
    run, random_words, stability = analysis.run, analysis.random_words, analysis.stability
    blocks: list[Block] = []
    summary = []
    if random_words is not None and run.selection is not None:
        blocks += random_words_blocks(random_words)
        if random_words.draws:
            place = f"{ordinal(random_words.held_out_rank)} place of {len(random_words.draws) + 1}"
            summary.append(f"{place} among random words on held-out images, before training.")
    if stability is not None:
        blocks += stability_blocks(stability, run.words)
        again = listed([f"“{word}” {stability.times(word)}" for word in run.words])
        draws = several(len(stability.resamples), "other draw")
        summary.append(f"How many of {draws} of shots chose a word again: {again}.")
    if not blocks:
        return None
    text = " ".join(summary) or "Random words in their places."
    return Section("belief", "Whether to believe it", tuple(blocks), text)


def _how_to_read(analysis: Analysis) -> str:
    """Returns how to read the prompt."""
    words = analysis.run.words
    vectors = "[V] is a trained vector that no one can read; the class name stands at the end."
    if not words:
        return vectors
    quoted = listed([f"“{word}”" for word in words])
    return f"{several(len(words), 'word')}: {quoted}. {vectors}"


def _is_better(analysis: Analysis) -> list[str]:
    """Returns how good it is, than what it is better, and by how much."""
    outcomes, comparison = analysis.outcomes, analysis.comparison
    if comparison is None:
        return [NO_IMAGES]
    sentences = [
        f"{'On' if outcomes else 'When it was trained: on'} "
        f"{several(comparison.total, 'held-out image')} it is right for "
        f"{percent(comparison.accuracy())} ({range_of_percent(*comparison.interval())}).",
        *comparison.compared_with((ZERO_SHOT, LINEAR_PROBE)),
        *comparison.about_collapse(),
    ]
    if outcomes is not None and outcomes.novel_classes:
        sentences.append(novel_sentence(outcomes))
    return sentences


def _words_matter(analysis: Analysis) -> list[str]:
    """Returns whether the words make the prompt better, and whether it depends on them."""
    result, comparison = analysis.run.result, analysis.comparison
    sentences: list[str] = []
    if comparison is not None:
        sentences += comparison.compared_with((WITHOUT_WORDS, PLAIN_LEARNER))
    if not result.words:
        return [*sentences, result.config.about_words]
    if comparison is None or comparison.of(WITHOUT_WORDS) is None:
        saved = result.comparison
        then = saved.compared_with((WITHOUT_WORDS,)) if saved is not None else []
        sentences += [f"When it was trained, on other images: {sentence}" for sentence in then] or [
            "The same prompt without words was not trained: ipl fit --compare."
        ]
    if analysis.effects is not None:
        sentences += dependence_sentences(analysis.effects)
    if analysis.random_words is not None:
        sentences += held_out_sentences(analysis.random_words)
    return sentences


def _how_sure(analysis: Analysis) -> list[str]:
    """Returns what the intervals are about, and how sure each word is."""
    sentences = [ABOUT_INTERVALS] if analysis.comparison else ["That is not known."]
    selection = analysis.run.selection
    return sentences + (certainty_sentences(selection) if selection is not None else [])
