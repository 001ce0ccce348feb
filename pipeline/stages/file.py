"""A pipeline from the Python file that declares it."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from .declaration import DeclarationError, Pipeline

MODULE = "kmini_pipeline_file"


def load_pipeline(path: str | Path) -> Pipeline:
    """The pipeline that a file declares: its variable `pipeline`, or the only `Pipeline` in it. Relative paths in it
    are then relative to the file's folder, wherever the program is run.

    The file is run as a module, so what is below `if __name__ == "__main__"` is not. Raises `DeclarationError`, for a
    file that cannot be run too.
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
    _pickle_by_value()
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


def _pickle_by_value() -> None:
    """Functions of the file may run in Spark's workers, which cannot import it."""
    try:
        from pyspark.cloudpickle import register_pickle_by_value
    except ImportError:  # whoever goes on to run it is told
        return
    register_pickle_by_value(sys.modules[MODULE])  # type: ignore[no-untyped-call]
