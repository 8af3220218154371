"""scikit-learn's manners for a class whose __init__ stores its parameters, without scikit-learn."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, TypeVar

from ipl.support.errors import ConfigError, did_you_mean

E = TypeVar("E", bound="Estimator")


class Estimator(ABC):
    """Parameters that can be read, set, checked and copied, as `clone` and `GridSearchCV` ask."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the parameters by name, as they were given; none of them has its own."""
        del deep
        names = [*inspect.signature(type(self).__init__).parameters][1:]
        return {name: getattr(self, name) for name in names}

    def set_params(self: E, **params: Any) -> E:
        """Returns itself with other parameters; if they cannot be, none of them is taken."""
        before = self.get_params()
        for name in params:
            if name not in before:
                raise ConfigError(
                    f"{type(self).__name__} has no parameter {name!r}.{did_you_mean(name, before)}"
                )
        vars(self).update(params)
        try:
            self.check_params()
        except ConfigError:
            vars(self).update(before)
            raise
        return self

    @abstractmethod
    def check_params(self) -> None:
        """Raises ConfigError for parameters out of range or at odds with each other."""

    @abstractmethod
    def fitted(self) -> bool:
        """Returns whether something has been learnt."""

    # -- what scikit-learn calls by name ----------------------------------------------------------

    def __sklearn_clone__(self: E) -> E:
        # Parameters are shared, not copied: a backbone is large, and frozen.
        return type(self)(**self.get_params())

    def __sklearn_is_fitted__(self) -> bool:
        return self.fitted()

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            transformer_tags=None,
            regressor_tags=None,
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )
