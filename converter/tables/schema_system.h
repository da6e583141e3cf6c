// SPDX-License-Identifier: Apache-2.0
//
// The tables of system facts: mounts, inodes, interrupts, writers of packets. schema.h explains the
// lists.
#pragma once

#define SYSTEM_TABLE_LIST(T)                                                                       \
    T(chrome_raw, "Chrome's records in forms older than track events, unchanged.")                 \
    T(inode_mount, "Mount points of the devices with files of inode_path.")                        \
    T(inode_path, "Names of files by their inodes, if recorded.")                                  \
    T(linux_interrupt_mapping, "Names of interrupts (/proc/interrupts).")                          \
    T(trace_diagnostics, "Mistakes in the config of the recording, and what to do about them.")    \
    T(trace_import_logs, "Single problems that stats counts, with details.")                       \
    T(trace_sequence, "The writers of the packets of a trace, and the buffers they wrote into.")

#define COLUMNS_chrome_raw(K, C, G)                                                                \
    K(chrome_raw, id, "Row.")                                                                      \
    C(chrome_raw, ts, INT, "Time (ns).")                                                           \
    C(chrome_raw, name, TEXT,                                                                      \
      "chrome_event.metadata, .legacy_system_trace (text of the kernel) or .legacy_user_trace "    \
      "(JSON).")                                                                                   \
    C(chrome_raw, arg_set_id, INT, "The facts, or the text as data, see args.")

#define COLUMNS_inode_mount(K, C, G)                                                               \
    K(inode_mount, id, "Row.")                                                                     \
    C(inode_mount, device, INT, "Device, as makedev(3) packs it.")                                 \
    C(inode_mount, path, TEXT, "Mount point.")                                                     \
    C(inode_mount, machine_id, INT, "Machine.")

#define COLUMNS_inode_path(K, C, G)                                                                \
    K(inode_path, id, "Row.")                                                                      \
    C(inode_path, device, INT, "Device, as makedev(3) packs it.")                                  \
    C(inode_path, inode, INT, "Inode number.")                                                     \
    C(inode_path, type, TEXT, "FILE or DIRECTORY, if known.")                                      \
    C(inode_path, path, TEXT, "A name of the file; a file with several names has several rows.")   \
    C(inode_path, machine_id, INT, "Machine.")

#define COLUMNS_linux_interrupt_mapping(K, C, G)                                                   \
    K(linux_interrupt_mapping, id, "Row.")                                                         \
    C(linux_interrupt_mapping, irq_id, INT, "Number of the interrupt.")                            \
    C(linux_interrupt_mapping, name, TEXT, "Name.")                                                \
    C(linux_interrupt_mapping, machine_id, INT, "Machine.")

#define COLUMNS_trace_diagnostics(K, C, G)                                                         \
    K(trace_diagnostics, id, "Row.")                                                               \
    C(trace_diagnostics, key, TEXT, "Name of the mistake, as in Perfetto.")                        \
    C(trace_diagnostics, title, TEXT, "The mistake in a few words.")                               \
    C(trace_diagnostics, description, TEXT, "The mistake and its effect.")                         \
    C(trace_diagnostics, remediation, TEXT, "A better config.")                                    \
    C(trace_diagnostics, confidence, REAL, "Likelihood that the mistake matters, 0 to 1.")         \
    C(trace_diagnostics, trace_id, INT, "Trace.")

#define COLUMNS_trace_import_logs(K, C, G)                                                         \
    K(trace_import_logs, id, "Row.")                                                               \
    C(trace_import_logs, trace_id, INT, "Trace.")                                                  \
    C(trace_import_logs, ts, INT, "Time (ns), if known.")                                          \
    C(trace_import_logs, byte_offset, INT, "Place in the trace, if known.")                        \
    C(trace_import_logs, stat_key, INT, "Kind of problem, see stats.key.")                         \
    C(trace_import_logs, arg_set_id, INT, "Details, see args.")

#define COLUMNS_trace_sequence(K, C, G)                                                            \
    K(trace_sequence, id, "Row.")                                                                  \
    C(trace_sequence, trace_id, INT, "Trace.")                                                     \
    C(trace_sequence, sequence, INT, "Number of the sequence of packets.")                         \
    C(trace_sequence, buffer, INT, "Number of the buffer, as in the recording's config; from 0.")  \
    C(trace_sequence, producer, INT, "Number of the producer during the recording.")
