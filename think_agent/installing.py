"""The command that installs an extra, for error messages."""


def install_command(package: str) -> str:
    """The command that installs `package`, such as `think-agent[openai]`, for this program.

    `uvx` creates an environment for one command, without pip. So there the command itself has to
    name the extra.
    """
    import os  # late, like the imports below: slow, and only errors need them
    from importlib.util import find_spec

    if "UV" in os.environ and find_spec("pip") is None:
        origin = _origin()
        if origin:
            return f'uvx --from "{package} @ {origin}" think-agent'
    return f'pip install "{package}"'


def _origin() -> str:
    """Where this package was installed from; empty for an index or a clone."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        noted = distribution("think-agent").read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    source = json.loads(noted or "{}")  # the format of PEP 610
    url = str(source.get("url", ""))
    if source.get("dir_info", {}).get("editable"):
        return ""
    if "vcs_info" in source:
        url = f"{source['vcs_info']['vcs']}+{url}@{source['vcs_info']['commit_id']}"
    return url
