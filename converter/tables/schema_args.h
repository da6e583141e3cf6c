// SPDX-License-Identifier: Apache-2.0
//
// The tables of args: see the view args. schema.h explains the lists.
#pragma once

#define ARGS_TABLE_LIST(T)                                                                         \
    T(_arg_field, "Fields of the kinds of arg sets.")                                              \
    T(_arg_kind, "Kinds of arg sets; the sets of one kind have the same fields.")                  \
    T(_arg_more, "Values that do not fit into the row of their arg set.")                          \
    T(_arg_set, "Arg sets, a row each; kernel events are arg sets that have a time.")

// An arg set is a row. Keys are stored once for each kind of set, not in every row. The value_
// columns hold the fields of the kind; a row ends after its last value. Kernel events are arg sets,
// too: their fields are the args, and the set's id is the event's id.
#define ARG_SLOTS_MAX 64

#define COLUMNS__arg_field(K, C, G)                                                                \
    K(_arg_field, id, "Row.")                                                                      \
    C(_arg_field, kind_id, INT, "Kind of set, see _arg_kind.")                                     \
    C(_arg_field, slot, INT,                                                                       \
      "Number of the value_ column that holds the field, or place in _arg_more.")                  \
    C(_arg_field, key, TEXT, "Key.")                                                               \
    C(_arg_field, flat_key, TEXT, "Key without array indexes, if different from the key.")         \
    C(_arg_field, type, INT, "Number of the value's type, see args.h.")

#define COLUMNS__arg_kind(K, C, G)                                                                 \
    K(_arg_kind, id, "Kind.")                                                                      \
    C(_arg_kind, name, TEXT, "Name of the kernel event, if the kind is a kernel event.")

#define COLUMNS__arg_more(K, C, G)                                                                 \
    K(_arg_more, id, "Row.")                                                                       \
    C(_arg_more, arg_set_id, INT, "Set, see _arg_set.")                                            \
    C(_arg_more, slot, INT, "Place in the set, from 64.")                                          \
    C(_arg_more, value, BLOB, "Value.")

#define COLUMNS__arg_set(K, C, G)                                                                  \
    K(_arg_set, id, "Set.")                                                                        \
    C(_arg_set, kind_id, INT, "Kind of set, see _arg_kind.")                                       \
    C(_arg_set, ts, INT, "Time of the kernel event (ns).")                                         \
    C(_arg_set, utid, INT, "Thread that the kernel event happened in.")                            \
    C(_arg_set, common_flags, INT, "The kernel's flags of the event, if recorded.")                \
    C(_arg_set, ucpu, INT, "Processor of the kernel event, see cpu.id.")                           \
    C(_arg_set, value_0, BLOB, "Value of field 0 of the kind.")                                    \
    C(_arg_set, value_1, BLOB, "Value of field 1 of the kind.")                                    \
    C(_arg_set, value_2, BLOB, "Value of field 2 of the kind.")                                    \
    C(_arg_set, value_3, BLOB, "Value of field 3 of the kind.")                                    \
    C(_arg_set, value_4, BLOB, "Value of field 4 of the kind.")                                    \
    C(_arg_set, value_5, BLOB, "Value of field 5 of the kind.")                                    \
    C(_arg_set, value_6, BLOB, "Value of field 6 of the kind.")                                    \
    C(_arg_set, value_7, BLOB, "Value of field 7 of the kind.")                                    \
    C(_arg_set, value_8, BLOB, "Value of field 8 of the kind.")                                    \
    C(_arg_set, value_9, BLOB, "Value of field 9 of the kind.")                                    \
    C(_arg_set, value_10, BLOB, "Value of field 10 of the kind.")                                  \
    C(_arg_set, value_11, BLOB, "Value of field 11 of the kind.")                                  \
    C(_arg_set, value_12, BLOB, "Value of field 12 of the kind.")                                  \
    C(_arg_set, value_13, BLOB, "Value of field 13 of the kind.")                                  \
    C(_arg_set, value_14, BLOB, "Value of field 14 of the kind.")                                  \
    C(_arg_set, value_15, BLOB, "Value of field 15 of the kind.")                                  \
    C(_arg_set, value_16, BLOB, "Value of field 16 of the kind.")                                  \
    C(_arg_set, value_17, BLOB, "Value of field 17 of the kind.")                                  \
    C(_arg_set, value_18, BLOB, "Value of field 18 of the kind.")                                  \
    C(_arg_set, value_19, BLOB, "Value of field 19 of the kind.")                                  \
    C(_arg_set, value_20, BLOB, "Value of field 20 of the kind.")                                  \
    C(_arg_set, value_21, BLOB, "Value of field 21 of the kind.")                                  \
    C(_arg_set, value_22, BLOB, "Value of field 22 of the kind.")                                  \
    C(_arg_set, value_23, BLOB, "Value of field 23 of the kind.")                                  \
    C(_arg_set, value_24, BLOB, "Value of field 24 of the kind.")                                  \
    C(_arg_set, value_25, BLOB, "Value of field 25 of the kind.")                                  \
    C(_arg_set, value_26, BLOB, "Value of field 26 of the kind.")                                  \
    C(_arg_set, value_27, BLOB, "Value of field 27 of the kind.")                                  \
    C(_arg_set, value_28, BLOB, "Value of field 28 of the kind.")                                  \
    C(_arg_set, value_29, BLOB, "Value of field 29 of the kind.")                                  \
    C(_arg_set, value_30, BLOB, "Value of field 30 of the kind.")                                  \
    C(_arg_set, value_31, BLOB, "Value of field 31 of the kind.")                                  \
    C(_arg_set, value_32, BLOB, "Value of field 32 of the kind.")                                  \
    C(_arg_set, value_33, BLOB, "Value of field 33 of the kind.")                                  \
    C(_arg_set, value_34, BLOB, "Value of field 34 of the kind.")                                  \
    C(_arg_set, value_35, BLOB, "Value of field 35 of the kind.")                                  \
    C(_arg_set, value_36, BLOB, "Value of field 36 of the kind.")                                  \
    C(_arg_set, value_37, BLOB, "Value of field 37 of the kind.")                                  \
    C(_arg_set, value_38, BLOB, "Value of field 38 of the kind.")                                  \
    C(_arg_set, value_39, BLOB, "Value of field 39 of the kind.")                                  \
    C(_arg_set, value_40, BLOB, "Value of field 40 of the kind.")                                  \
    C(_arg_set, value_41, BLOB, "Value of field 41 of the kind.")                                  \
    C(_arg_set, value_42, BLOB, "Value of field 42 of the kind.")                                  \
    C(_arg_set, value_43, BLOB, "Value of field 43 of the kind.")                                  \
    C(_arg_set, value_44, BLOB, "Value of field 44 of the kind.")                                  \
    C(_arg_set, value_45, BLOB, "Value of field 45 of the kind.")                                  \
    C(_arg_set, value_46, BLOB, "Value of field 46 of the kind.")                                  \
    C(_arg_set, value_47, BLOB, "Value of field 47 of the kind.")                                  \
    C(_arg_set, value_48, BLOB, "Value of field 48 of the kind.")                                  \
    C(_arg_set, value_49, BLOB, "Value of field 49 of the kind.")                                  \
    C(_arg_set, value_50, BLOB, "Value of field 50 of the kind.")                                  \
    C(_arg_set, value_51, BLOB, "Value of field 51 of the kind.")                                  \
    C(_arg_set, value_52, BLOB, "Value of field 52 of the kind.")                                  \
    C(_arg_set, value_53, BLOB, "Value of field 53 of the kind.")                                  \
    C(_arg_set, value_54, BLOB, "Value of field 54 of the kind.")                                  \
    C(_arg_set, value_55, BLOB, "Value of field 55 of the kind.")                                  \
    C(_arg_set, value_56, BLOB, "Value of field 56 of the kind.")                                  \
    C(_arg_set, value_57, BLOB, "Value of field 57 of the kind.")                                  \
    C(_arg_set, value_58, BLOB, "Value of field 58 of the kind.")                                  \
    C(_arg_set, value_59, BLOB, "Value of field 59 of the kind.")                                  \
    C(_arg_set, value_60, BLOB, "Value of field 60 of the kind.")                                  \
    C(_arg_set, value_61, BLOB, "Value of field 61 of the kind.")                                  \
    C(_arg_set, value_62, BLOB, "Value of field 62 of the kind.")                                  \
    C(_arg_set, value_63, BLOB, "Value of field 63 of the kind.")
