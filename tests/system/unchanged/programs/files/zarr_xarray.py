"""xarray writes a data set to Zarr on a bucket, appends and opens it lazily: zarr_xarray.py gs://BUCKET/SET."""

import sys

import numpy as np
import xarray as xr

values = np.random.default_rng(0).standard_normal((64, 90, 180))
every = xr.Dataset({"t": (("time", "lat", "lon"), values)})
every.isel(time=slice(0, 48)).to_zarr(sys.argv[1], encoding={"t": {"chunks": (16, 45, 90)}})
every.isel(time=slice(48, 64)).to_zarr(sys.argv[1], append_dim="time")
found = xr.open_zarr(sys.argv[1], chunks=None)
np.testing.assert_array_equal(found["t"][40:50, 3].values, values[40:50, 3])
print(f"{dict(found.sizes)}, equal")
