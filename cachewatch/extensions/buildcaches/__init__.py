"""Build caches as Spack's clients publish them, read at their index.

`address.py` says what an address means and how files are got from there, `layouts.py` finds the index in a mirror of
layout 2 or 3 and asks for the sizes of tarballs, and `oci.py` finds the index in a registry. `records.py` finds the
records of an index, and `index.py` makes specs of them and keeps these in a temporary file. `opening.py` puts the
specs of several indexes together and reads the list of all of Spack's public caches; `recorder.py` keeps the history.
"""
