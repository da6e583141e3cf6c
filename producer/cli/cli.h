// SPDX-License-Identifier: Apache-2.0
//
// The verbs of mmtrace. verbs[] in mmtrace.c lists them all.
#pragma once

#include "common/program.h" // the other exit codes

#define CLI_PROGRAM "mmtrace"

#define CLI_NOT_DETACHED 2 // record --attach, --is_detached: unknown session, as in `perfetto`

int cli_bugreport(int argc, char **argv);
int cli_clone(int argc, char **argv);
int cli_daemon(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_heap(int argc, char **argv);
int cli_cpu(int argc, char **argv);
int cli_faults(int argc, char **argv);
int cli_java(int argc, char **argv);
int cli_record(int argc, char **argv);
int cli_sources(int argc, char **argv);
int cli_status(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_trigger(int argc, char **argv);
