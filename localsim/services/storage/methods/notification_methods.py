"""The methods of notificationConfigs; what they keep is never published."""

from aiohttp import web

from localsim.rules.objects.buckets.notification_configs import NotificationConfig
from localsim.services.storage.service import StorageService
from localsim.services.storage.wire.json_requests import StorageCall, read_json_body
from localsim.services.storage.wire.resources import Resource, reply


async def insert_notification(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Keep a configuration."""
    resource = await read_json_body(call.request)
    insert = service.objects.notifications.insert
    config = await service.commit(insert, call.bucket, resource)
    return reply(call, _resource(call, config))


async def get_notification(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Describe a configuration."""
    config = service.objects.notifications.get(call.bucket, call.names["notification"])
    return reply(call, _resource(call, config))


async def list_notifications(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """All configurations of a bucket; there are no pages."""
    configs = service.objects.notifications.list(call.bucket)
    page: Resource = {"kind": "storage#notifications"}
    if configs:
        page["items"] = [_resource(call, config) for config in configs]
    return reply(call, page)


async def delete_notification(service: StorageService, call: StorageCall) -> web.StreamResponse:
    """Forget a configuration."""
    delete = service.objects.notifications.delete
    await service.commit(delete, call.bucket, call.names["notification"])
    return web.Response(status=204)


def _resource(call: StorageCall, config: NotificationConfig) -> Resource:
    return {
        "kind": "storage#notification",
        "id": str(config.id),
        "selfLink": (f"{call.origin}/storage/v1/b/{config.bucket}/notificationConfigs/{config.id}"),
        **config.settings,
        "etag": str(config.id),
    }
