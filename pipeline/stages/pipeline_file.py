"""Load a pipeline from the Python file that declares it."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from .declaration import DeclarationError
from .pipeline import Pipeline

MODULE = "kmini_pipeline_file"


def load_pipeline(path: str | Path) -> Pipeline:
    """Load the pipeline that a file declares: its variable `pipeline`, or the only `Pipeline` in it. Relative paths of
    the pipeline start from the file's folder, wherever the program runs.

    The file runs as a module, so code below `if __name__ == "__main__"` does not run. Raises `DeclarationError`, also
    for a file that cannot run.
    """
    path = Path(path).absolute()
    spec = spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise DeclarationError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[MODULE] = module
    try:
        spec.loader.exec_module(module)
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from error
    except Exception as error:
        raise DeclarationError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    _pickle_by_value(path.parent)
    found = vars(module).get("pipeline")
    if found is None:
        declared = {id(value): value for value in vars(module).values() if isinstance(value, Pipeline)}
        if len(declared) != 1:
            raise DeclarationError(
                f"{path} declares {len(declared) or 'no'} pipelines: pipeline = Pipeline(...) says which"
            )
        (found,) = declared.values()
    if not isinstance(found, Pipeline):
        raise DeclarationError(f"{path}: pipeline is {type(found).__name__}, a kmini.pipeline.Pipeline was expected")
    return replace(found, directory=str(path.parent / found.directory))


def _pickle_by_value(folder: Path) -> None:
    """Have Spark send the file's functions by value, and the modules beside it that it has imported: Spark's workers,
    on a cluster the executors, cannot import them."""
    try:
        from pyspark.cloudpickle import register_pickle_by_value
    except ImportError:  # a pipeline that runs reports that Spark is missing
        return
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None) or ""
        if name == MODULE or file in (str(folder / f"{name}.py"), str(folder / name / "__init__.py")):
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]
