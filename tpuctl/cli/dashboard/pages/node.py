"""The page of a node: its chips as they are now, its workers, and what was measured this week."""

import asyncio
import time
from typing import Any

from tpuctl.cli.dashboard.board import Board
from tpuctl.cli.dashboard.page import Page, facts, findings_list, missing_list, state, usd_text
from tpuctl.cli.dashboard.pages.charts import chart_document, charts_section, workers_table
from tpuctl.cli.dashboard.pages.mesh_view import mesh_section
from tpuctl.cli.shell.tables.values import PointInTime
from tpuctl.cli.top.worker_row import worker_rows
from tpuctl.cli.web.html import Child, Html, join, link, path, tag
from tpuctl.metrics.chart_series import charts
from tpuctl.metrics.sample_history import SampleHistory
from tpuctl.models.node import Node, NodeState
from tpuctl.operations.metrics.watched_slice import WatchedSlice
from tpuctl.operations.slices import lifecycle

ORDER = ("state", "missing", "findings", "chips", "workers", "charts")
EVERY_S = 2.0


async def node_page(board: Board, zone: str, name: str, metric: str) -> Page:
    """The page of a node as it is now; its chips are coloured by `metric`."""
    node = await find_node(board, zone, name)
    watched = board.watches.node(node) if node.state == NodeState.READY else None
    now_s = board.runtime.now()
    findings = watched.findings(now_s) if watched else []
    missing = [watched.trouble] if watched and watched.trouble else []
    rows = worker_rows(watched, now_s, time.monotonic(), findings) if watched else []
    live = {
        "state": _facts(node, watched),
        "missing": missing_list(missing),
        "findings": findings_list(findings, board.typed),
        "chips": mesh_section(watched, rows, metric) if watched else tag("p", ""),
        "workers": workers_table(rows),
    }
    source = path("nodes", zone, name, "samples")
    return Page(
        node.name, live, {"charts": charts_section(source, f"tpuctl node metrics {name} -o csv")},
        ORDER, back=(tag("span", "Node"),), has_charts=True, every_s=EVERY_S,
    )  # fmt: skip


async def find_node(board: Board, zone: str, name: str) -> Node:
    """The node as the API knows it; one that is watched is not asked for again."""
    for each in board.watches.slices:
        node = each.node
        if node and (node.zone, node.name) == (zone, name) and not each.is_over:
            return node
    return await asyncio.to_thread(lifecycle.find, board.runtime.tpu, zone, name)


def _facts(node: Node, watched: WatchedSlice | None) -> Html:
    shown: dict[str, Child] = {
        "state": state(watched.state if watched else node.state),
        "type": node.accelerator_type,
        "zone": node.zone,
        "provisioning": node.provisioning,
        "workers": node.worker_count,
        "runtime": node.runtime_version,
        "health": node.health,
        "created": str(PointInTime(node.created_s)),
        "cost": f"{usd_text(_price(node, watched))}/h",
    }
    delete = link("Delete", "nodes", node.zone, node.name, "delete")
    return join([facts(shown), tag("p", delete, class_="actions")])


def _price(node: Node, watched: WatchedSlice | None) -> float | None:
    return (watched or WatchedSlice(node.name, node=node)).usd_per_hour


def node_charts(board: Board, node: Node) -> dict[str, Any]:
    """The charts of what was measured on a node while somebody watched it."""
    series = SampleHistory(board.runtime.home).read(str(node.node_id))
    return chart_document(charts(series))
