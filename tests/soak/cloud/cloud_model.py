"""What clients may ask of Cloud TPU, and what they are told: the histories' oracle."""

from soak.cloud.cloud_service import (
    ABORTED,
    ACCEPTANCE_S,
    ALREADY_EXISTS,
    CANCELLED,
    DELETION_S,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    OK,
    PROVISIONING_S,
    RESOURCE_EXHAUSTED,
    SMALL,
    UPDATE_S,
    Node,
    Request,
    Service,
    Tier,
    found,
    require,
)


class Model(Service):
    """The API: each call returns the number of its operation or raises RefusedError."""

    def create_node(self, name: str, tier: Tier, request_id: str) -> int:
        if (key := ("create", name, request_id)) in self.sent:
            return self.sent[key]
        require(name not in self.nodes, ALREADY_EXISTS)
        require(self.has_quota(tier), RESOURCE_EXHAUSTED)
        operation = self.begin(name, key)
        self.nodes[name] = Node(tier, operation=operation)
        self.promise(self.now_s + PROVISIONING_S, "provision", name)
        return operation

    def delete_node(self, name: str, request_id: str) -> int:
        if (key := ("delete", name, request_id)) in self.sent:
            return self.sent[key]
        node = found(self.nodes, name)
        require(node.state != "DELETING", FAILED_PRECONDITION)
        operation = self.begin_deletion(name, self.now_s, key)
        self.lose_node(node, "USER", self.now_s)
        return operation

    def stop_node(self, name: str) -> int:
        node = found(self.nodes, name)
        require(node.tier == (SMALL, False) and not node.owner, FAILED_PRECONDITION)
        return self._change_power(name, node, "READY", "STOPPED")

    def start_node(self, name: str) -> int:
        return self._change_power(name, found(self.nodes, name), "STOPPED", "READY")

    def update_node(self, name: str, label: str) -> int:
        node = found(self.nodes, name)
        require(node.update is None, ABORTED)
        operation = self.begin(name)
        if node.state == "READY":
            node.update = operation, label
            self.promise(self.now_s + UPDATE_S, "update", name)
        else:
            self.outcomes[operation] = INVALID_ARGUMENT
        return operation

    def create_request(
        self,
        name: str,
        nodes: tuple[str, ...],
        tier: Tier,
        window: tuple[float, float],
        request_id: str,
    ) -> int:
        if (key := ("create", name, request_id)) in self.sent:
            return self.sent[key]
        taken = {name} & self.requests.keys() or set(nodes) & self.nodes.keys()
        require(not taken, ALREADY_EXISTS)
        operation = self.begin(name, key)
        self.outcomes[operation] = OK  # filed: all that its operation waits for
        self.requests[name] = Request(tier, nodes, self.now_s)
        self.promise(self.now_s + max(ACCEPTANCE_S, window[0]), "admit", name)
        self.promise(self.now_s + window[1], "expire", name)
        return operation

    def delete_request(self, name: str, how: str, request_id: str) -> int:
        if (key := ("delete", name, request_id)) in self.sent:
            return self.sent[key]
        request = found(self.requests, name)
        refusing = {"PROVISIONING", "DELETING"}
        if how != "force" and self.owned(name):
            refusing |= {"ACTIVE", "SUSPENDING"}
        require(request.state not in refusing, FAILED_PRECONDITION)
        operation = self.begin(name, key)
        self.end(request.operation, CANCELLED)
        self.withdraw(name)
        request.state, request.initiator, request.operation = "DELETING", "USER", operation
        request.failure = None
        self.delete_owned(name, self.now_s)
        self.promise(self.now_s + DELETION_S, "remove request", name)
        return operation

    def reset_request(self, name: str) -> int:
        request = found(self.requests, name)
        require(request.operation is None, ABORTED)
        require(request.state in ("ACTIVE", "SUSPENDED"), FAILED_PRECONDITION)
        operation = self.begin(name)
        self.withdraw(name)
        request.state, request.initiator, request.operation = "ACCEPTED", "USER", operation
        self.delete_owned(name, self.now_s)
        self.promise(self.now_s + DELETION_S, "admit", name)
        return operation

    def cancel(self, operation: int) -> None:
        node = self.nodes.get(self.targets[operation])
        is_waiting = node and node.state == "CREATING" and not node.has_slice
        if is_waiting and self.outcomes[operation] is None:
            self.give_up(self.targets[operation], node, CANCELLED)

    def _change_power(self, name: str, node: Node, before: str, after: str) -> int:
        require(node.update is None, ABORTED)
        require(node.state == before, FAILED_PRECONDITION)
        operation = self.begin(name)
        node.state, self.outcomes[operation] = after, OK
        return operation
