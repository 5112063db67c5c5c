"""The XML documents that Cloud Storage writes."""

import re
from collections.abc import Sequence
from typing import TypeAlias, Union
from xml.sax.saxutils import escape

from aiohttp import web

Tree: TypeAlias = Sequence[tuple[str, Union[str, int, "Tree", None]]]
"""Elements in order: the name of each, and its text or its children; None leaves it out.

Attributes stand behind the name.
"""

OF_LISTINGS = "http://doc.s3.amazonaws.com/2006-03-01"
OF_UPLOADS = "http://s3.amazonaws.com/doc/2006-03-01/"
"""The namespaces that Google's own answers are in; clients look for the second one."""

# What an object's name may hold and XML may not. Strict parsers refuse such a reference, and may
# ask for encoding-type=url: better than to hear another object's name.
_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")


def _content(value: str | int | Tree) -> str:
    if isinstance(value, str):
        return _NOT_XML.sub(lambda match: f"&#{ord(match[0])};", escape(value))
    if isinstance(value, int):
        return str(value)
    return "".join(
        f"<{name}>{_content(child)}</{name.partition(' ')[0]}>"
        for name, child in value
        if child is not None
    )


def xml_response(
    root: str, tree: Tree, namespace: str | None = None, *, status: int = 200
) -> web.Response:
    """A reply with an XML document in UTF-8."""
    attribute = f" xmlns='{namespace}'" if namespace else ""
    text = f"<?xml version='1.0' encoding='UTF-8'?><{root}{attribute}>{_content(tree)}</{root}>"
    return web.Response(
        body=text.encode(),
        status=status,
        headers={"Content-Type": "application/xml; charset=UTF-8"},
    )
