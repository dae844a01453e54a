"""Writes h5py.h5 and huggingface.safetensors: what the two Python libraries can put into a file, and we must
read or refuse. Run in this folder, with h5py, numpy, safetensors and torch installed."""

import h5py
import numpy as np
import torch
from safetensors.torch import save_file

with h5py.File("h5py.h5", "w") as file:
    file.attrs["variable"] = "größer"
    file.attrs["fixed"] = np.bytes_("plain")
    file.attrs["empty"] = ""
    file.attrs["strings"] = ["two", "strings"]
    file.attrs["integer"] = 7
    file.attrs["small"] = np.int8(-3)
    file.attrs["unsigned"] = np.uint64(2**63 - 1)
    file.attrs["beyond"] = np.uint64(2**63)
    file.attrs["fraction"] = 0.5
    file["half"] = np.array([1.5, -0.25], "float16")
    file["big_endian"] = np.array([[1, 2], [3, 4]], ">f8")
    file["unsigned16"] = np.array([0, 65535], "uint16")
    file["long"] = np.array([1, 2**40], "int64")
    file["negative"] = np.array([-1], "int64")
    file["fractions"] = np.array([1.0, 2.5])
    file["whole"] = np.array([1.0, -2.0])
    file["infinite"] = np.array([np.inf, -np.inf, np.nan])
    file["boolean"] = np.array([True, False])
    file["text"] = "a string"
    file["scalar"] = 2.5
    file["no_elements"] = np.zeros((0, 3), "float32")
    file["nothing"] = h5py.Empty("float32")
    file.create_dataset("group/compressed", data=np.arange(1000, dtype="float32"), chunks=(100,), compression="gzip")
    file.create_dataset("never_filled", (2**33,), "float32")
    file.create_dataset("never_compressed", (2**33,), "float32", chunks=(1024,), compression="gzip")
    file.create_dataset("partly_filled", (2**33,), "float32", chunks=(16,))[0] = 1
    file.create_dataset("too_large", (2**34,), "float32", chunks=(1024,))
    file.create_dataset("elsewhere", (4,), "uint8", external=[("outside.bin", 0, 4)])
    layout = h5py.VirtualLayout((2,), "float64")
    layout[:] = h5py.VirtualSource("other.h5", "values", (2,))
    file.create_virtual_dataset("virtual", layout)
    file["dangling"] = h5py.SoftLink("/not/there")

save_file(
    {
        "half": torch.tensor([[0.5, -2.0, 65504.0]], dtype=torch.float16),
        "brain": torch.tensor([1.0, -3.0], dtype=torch.bfloat16),
        "single": torch.tensor([0.1, -0.0, 1e-45]),
        "double": torch.tensor([0.1], dtype=torch.float64),
        "eight": torch.tensor([1.0, 2.0, 3.0]).to(torch.float8_e4m3fn),
        "flags": torch.tensor([True, False, True]),
        "long": torch.tensor([2**40, -1]),
        "scalar": torch.tensor(4.0),
        "nothing": torch.zeros(0, 7),
        "infinite": torch.tensor([1.0, float("-inf")]),
    },
    "huggingface.safetensors",
    metadata={"format": "pt", "größe": "äöü"},
)
