"""How to install an extra: the command, for whoever reads an error of this program."""


def install_command(package: str) -> str:
    """The command that installs `package`, such as `think-agent[openai]`, so that this program has
    it.

    `uvx` makes an environment for one command, and pip is not in it. So there the command itself
    has to name the extra.
    """
    import os  # late, as those below: they are slow, and only an error needs them
    from importlib.util import find_spec

    if "UV" in os.environ and find_spec("pip") is None:
        origin = _origin()
        if origin:
            return f'uvx --from "{package} @ {origin}" think-agent'
    return f'pip install "{package}"'


def _origin() -> str:
    """Where this package was installed from; empty if that is an index or a clone."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        noted = distribution("think-agent").read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    source = json.loads(noted or "{}")  # its form is PEP 610's
    url = str(source.get("url", ""))
    if source.get("dir_info", {}).get("editable"):
        return ""
    if "vcs_info" in source:
        url = f"{source['vcs_info']['vcs']}+{url}@{source['vcs_info']['commit_id']}"
    return url
