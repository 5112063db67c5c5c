"""google-cloud-storage-control against the folders of the same store as the JSON API's."""

import json

import pytest
from google.api_core import exceptions
from google.cloud import storage_control_v2

from client.storage.storage_fixtures import HIERARCHICAL, UNIFORM

pytest_plugins = ("client.storage.grpc_api.grpc_fixtures",)


@pytest.fixture
def tree(wires):
    return wires.new_box(**HIERARCHICAL)


def test_a_folder_from_make_to_delete(wires, tree):
    parent, control = wires.bucket(tree), wires.control
    made = control.create_folder(parent=parent, folder=storage_control_v2.Folder(), folder_id="a")
    assert made.name == f"{parent}/folders/a/"
    assert made.metageneration == 1
    shown = tree.request("GET", f"{tree.bucket_path}/folders/a%2F").json
    assert shown["createTime"].startswith(f"{made.create_time:%Y-%m-%dT%H:%M:%S}")
    assert control.get_folder(name=f"{parent}/folders/a") == made
    tree.upload("a%2Fb%2Fc", b"1")
    names = [folder.name for folder in control.list_folders(parent=parent)]
    assert names == [f"{parent}/folders/{name}" for name in ("a/", "a/b/")]
    request = storage_control_v2.ListFoldersRequest(parent=parent, delimiter="/", page_size=1)
    assert [folder.name for folder in control.list_folders(request)] == names[:1]
    with pytest.raises(exceptions.FailedPrecondition, match="400 The folder you tried to delete"):
        control.delete_folder(name=names[0])
    tree.request("DELETE", f"{tree.objects}/a%2Fb%2Fc")
    for name in reversed(names):
        control.delete_folder(name=name)
    with pytest.raises(exceptions.NotFound, match="The folder does not exist"):
        control.get_folder(name=names[0])


def test_a_rename_and_its_operation(wires, tree):
    parent, control = wires.bucket(tree), wires.control
    tree.upload("ra%2Fx%2Fy", b"1")
    operation = control.rename_folder(name=f"{parent}/folders/ra/", destination_folder_id="rb/")
    assert operation.result(timeout=5).name == f"{parent}/folders/rb/"
    assert operation.metadata.source_folder_id == "ra/"
    assert operation.metadata.destination_folder_id == "rb/"
    assert operation.metadata.common_metadata.type_ == "rename-folder"
    name = operation.operation.name
    again = control.transport.operations_client.get_operation(name)
    assert again == operation.operation
    path = name.removeprefix("projects/_/buckets/")
    assert tree.request("GET", f"/storage/v1/b/{path}").json["done"] is True
    assert tree.media("rb%2Fx%2Fy") == b"1"


def test_refusals_have_the_codes_of_google(wires, tree, subtests):
    parent, control = wires.bucket(tree), wires.control
    tree.upload("a%2Fx", b"1")
    tree.upload("b%2Fx", b"1")

    def renamed(target, **conditions):
        request = storage_control_v2.RenameFolderRequest(
            name=f"{parent}/folders/a", destination_folder_id=target, **conditions
        )
        return control.rename_folder(request)

    with pytest.raises(exceptions.AlreadyExists):
        renamed("b")
    with pytest.raises(exceptions.FailedPrecondition, match="400 The parent folder does not"):
        renamed("nowhere/b")
    with pytest.raises(exceptions.InvalidArgument):
        renamed("a/b")
    with pytest.raises(exceptions.FailedPrecondition):
        renamed("c", if_metageneration_match=7)
    with pytest.raises(exceptions.InvalidArgument):
        control.get_folder(name="folders/a")
    with pytest.raises(exceptions.InvalidArgument):
        list(control.list_folders(parent=f"{parent}/more"))
    with pytest.raises(exceptions.MethodNotImplemented):
        list(control.list_anywhere_caches(parent=parent))
    flat = wires.bucket(wires.new_box())
    with pytest.raises(exceptions.FailedPrecondition, match="does not support hierarchical"):
        control.get_folder(name=f"{flat}/folders/a")
    with pytest.raises(exceptions.NotFound):
        control.get_folder(name="projects/_/buckets/nobodys/folders/a")


def test_a_folder_is_deleted_with_all_that_is_in_it(wires, tree):
    parent = wires.bucket(tree)
    tree.upload("a%2Fb%2Fc", b"1")
    request = storage_control_v2.DeleteFolderRecursiveRequest(name=f"{parent}/folders/a/")
    operation = wires.control.delete_folder_recursive(request)
    operation.result(timeout=5)
    assert operation.metadata.folder_id == "a/"
    assert list(wires.control.list_folders(parent=parent)) == []


def test_the_layout(wires, tree):
    layout = wires.control.get_storage_layout(name=f"{wires.bucket(tree)}/storageLayout")
    assert layout.hierarchical_namespace.enabled
    assert (layout.location, layout.location_type) == ("US", "multi-region")
    flat = wires.bucket(wires.new_box())
    layout = wires.control.get_storage_layout(name=f"{flat}/storageLayout")
    assert "hierarchical_namespace" not in layout


def test_managed_folders(wires):
    box = wires.new_box(**UNIFORM)
    parent, control = wires.bucket(box), wires.control
    empty = storage_control_v2.ManagedFolder()
    made = control.create_managed_folder(
        parent=parent, managed_folder=empty, managed_folder_id="m/n"
    )
    assert made.name == f"{parent}/managedFolders/m/n/"
    assert control.get_managed_folder(name=made.name) == made
    assert list(control.list_managed_folders(parent=parent)) == [made]
    shown = box.request("GET", f"{box.bucket_path}/managedFolders").json
    assert json.dumps(shown).count("m/n/") > 0
    box.upload("m%2Fn%2Fx", b"1")
    with pytest.raises(exceptions.FailedPrecondition, match="not empty"):
        control.delete_managed_folder(name=made.name)
    request = storage_control_v2.DeleteManagedFolderRequest(name=made.name, allow_non_empty=True)
    control.delete_managed_folder(request)
    with pytest.raises(exceptions.NotFound):
        control.get_managed_folder(name=made.name)
