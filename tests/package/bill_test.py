#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What packaging/bill_of_materials.py reads out of dpkg."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "packaging"))
import bill_of_materials


class Owners(unittest.TestCase):
    def test_files_that_dpkg_moved_have_no_owner_of_their_own(self):  # as on Debian 13
        self.assertEqual(bill_of_materials.owners(
            "libc6:amd64: /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n"
            "diversion by libc6 from: /lib64/ld-linux-x86-64.so.2\n"
            "diversion by libc6 to: /lib64/ld-linux-x86-64.so.2.usr-is-merged\n"
            "local diversion from: /usr/bin/moved\n"
            "libgmp10:amd64, libgmp10:i386: /usr/share/doc/libgmp10\n"),
            {"libc6:amd64", "libgmp10:amd64", "libgmp10:i386"})

    def test_nothing_owns_nothing(self):
        self.assertEqual(bill_of_materials.owners(""), set())


if __name__ == "__main__":
    unittest.main()
