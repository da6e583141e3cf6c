#!/bin/sh
# Make sqlite3.c, sqlite3.h and sqlite3ext.h from SQLite's canonical source: amalgamate.sh SOURCE_DIR OUTPUT_DIR
set -eu
source=$1 output=$2
work=$output/amalgamation
mkdir -p "$work"
cd "$work"
log=$work/log
# The tools that it compiles are plain C programs for this machine.
if ! { CFLAGS=-O1 LDFLAGS='' "$source"/configure --disable-readline --disable-tcl && make sqlite3.c; } >"$log" 2>&1
then
    tail -n 30 "$log" >&2
    exit 1
fi
cp sqlite3.c sqlite3.h "$source/src/sqlite3ext.h" "$output"
