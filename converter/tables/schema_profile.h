// SPDX-License-Identifier: Apache-2.0
//
// The tables of profiles: call stacks, samples, heap profiles and dumps of Java heaps. schema.h
// explains the lists.
#pragma once

#define PROFILE_TABLE_LIST(T)                                                                      \
    T(android_heap_graph_java_oome_details, "Java heaps that were full.")                          \
    T(heap_graph, "Dumps of the objects of Java heaps.")                                           \
    T(heap_graph_class, "Classes of the objects in Java heaps.")                                   \
    T(heap_graph_object, "Objects in Java heaps.")                                                 \
    T(heap_graph_object_data, "Contents of objects in Java heaps: fields of bitmaps.")             \
    T(heap_graph_primitive, "Fields of objects in Java heaps that are numbers.")                   \
    T(heap_graph_reference, "References from objects in Java heaps to others.")                    \
    T(heap_graph_thread_callsite, "Call stacks of threads when their heap was full.")              \
    T(heap_profile, "Heap dumps of processes.")                                                    \
    T(heap_profile_allocation, "Sampled allocations (positive) and frees (negative).")             \
    T(malloc_arena, "Memory that the allocator of profiled processes held, by arena.")             \
    T(stack_profile_callsite, "Call chains: a frame and the call site that called it.")            \
    T(stack_profile_frame, "Functions and addresses in call chains.")                              \
    T(stack_profile_mapping, "Files mapped into profiled processes.")                              \
    T(stack_profile_symbol, "Source positions of frames, inlined functions included.")             \
    T(_profiler_async_context, "Asynchronous contexts of samples.")                                \
    T(_profiler_counter_set, "Counters that were read with a sample.")                             \
    T(_profiler_execution_context, "Processors and modes in which samples were taken.")            \
    T(_profiler_sample, "Samples of all profilers.")                                               \
    T(_profiler_session, "Sessions of all profilers.")                                             \
    T(_profiler_task_context, "Threads and tasks that were sampled.")

#define COLUMNS_android_heap_graph_java_oome_details(K, C, G)                                      \
    K(android_heap_graph_java_oome_details, id, "Row.")                                            \
    C(android_heap_graph_java_oome_details, heap_graph_id, INT, "Heap, see heap_graph.")           \
    C(android_heap_graph_java_oome_details, allocation_size_bytes, INT,                            \
      "Size of the allocation that failed.")                                                       \
    C(android_heap_graph_java_oome_details, total_bytes_free, INT, "Free bytes in the heap.")      \
    C(android_heap_graph_java_oome_details, free_bytes_until_oom, INT,                             \
      "Bytes by which the heap could still grow.")                                                 \
    C(android_heap_graph_java_oome_details, error_msg, TEXT, "Text of the error.")

#define COLUMNS_heap_graph_thread_callsite(K, C, G)                                                \
    K(heap_graph_thread_callsite, id, "Row.")                                                      \
    C(heap_graph_thread_callsite, heap_graph_id, INT, "Heap, see heap_graph.")                     \
    C(heap_graph_thread_callsite, utid, INT, "Thread.")                                            \
    C(heap_graph_thread_callsite, callsite_id, INT, "Call stack, see stack_profile_callsite.")

#define COLUMNS_heap_graph(K, C, G)                                                                \
    K(heap_graph, id, "Row.")                                                                      \
    C(heap_graph, ts, INT, "Time of the dump (ns).")                                               \
    C(heap_graph, upid, INT, "Process.")                                                           \
    C(heap_graph, dump_reason, TEXT, "Cause, if known.")                                           \
    C(heap_graph, heap_size, INT, "Bytes allocated in the heap.")                                  \
    C(heap_graph, truncated, INT, "1 if packets of the dump are missing.")

#define COLUMNS_heap_graph_class(K, C, G)                                                          \
    K(heap_graph_class, id, "Row.")                                                                \
    C(heap_graph_class, name, TEXT, "Name.")                                                       \
    C(heap_graph_class, deobfuscated_name, TEXT, "Name before obfuscation.")                       \
    C(heap_graph_class, location, TEXT, "File that the class was loaded from.")                    \
    C(heap_graph_class, superclass_id, INT, "Superclass.")                                         \
    C(heap_graph_class, classloader_id, INT, "Object that loaded the class.")                      \
    C(heap_graph_class, kind, TEXT, "KIND_NORMAL, KIND_STRING, ...")

#define COLUMNS_heap_graph_object(K, C, G)                                                         \
    K(heap_graph_object, id, "Row.")                                                               \
    C(heap_graph_object, upid, INT, "Process.")                                                    \
    C(heap_graph_object, graph_sample_ts, INT, "Time of the dump (ns), see heap_graph.")           \
    C(heap_graph_object, self_size, INT,                                                           \
      "Bytes of the object alone; NULL: the object was not dumped.")                               \
    C(heap_graph_object, native_size, INT, "Bytes of native memory that the object owns.")         \
    C(heap_graph_object, reference_set_id, INT,                                                    \
      "References of the object, see heap_graph_reference.")                                       \
    C(heap_graph_object, reachable, INT, "1 if a root leads to the object.")                       \
    C(heap_graph_object, heap_type, TEXT, "Part of the heap that has the object.")                 \
    C(heap_graph_object, type_id, INT, "Class of the object.")                                     \
    C(heap_graph_object, root_type, TEXT, "Why the object is kept, if the object is a root.")      \
    C(heap_graph_object, root_distance, INT,                                                       \
      "Number of references from the nearest root; -1: no root leads to the object.")              \
    C(heap_graph_object, object_data_id, INT, "Contents, see heap_graph_object_data.")

#define COLUMNS_heap_graph_object_data(K, C, G)                                                    \
    K(heap_graph_object_data, id, "Row.")                                                          \
    C(heap_graph_object_data, field_set_id, INT,                                                   \
      "Fields of the object, see heap_graph_primitive.")                                           \
    C(heap_graph_object_data, value_string, TEXT, "Text, if the object is a string.")              \
    C(heap_graph_object_data, array_element_type, TEXT,                                            \
      "Type of the elements, if the object is an array.")                                          \
    C(heap_graph_object_data, array_element_count, INT,                                            \
      "Number of elements, if the object is an array.")                                            \
    C(heap_graph_object_data, array_data_id, INT, "Always NULL: dumps have no elements.")          \
    C(heap_graph_object_data, array_data_hash, INT, "Always NULL: dumps have no elements.")

#define COLUMNS_heap_graph_primitive(K, C, G)                                                      \
    K(heap_graph_primitive, id, "Row.")                                                            \
    C(heap_graph_primitive, field_set_id, INT, "Equal for the fields of one object.")              \
    C(heap_graph_primitive, field_name, TEXT, "Field, with its class.")                            \
    C(heap_graph_primitive, field_type, TEXT, "int, long, ...")                                    \
    C(heap_graph_primitive, bool_value, INT, "Value, if it is a boolean.")                         \
    C(heap_graph_primitive, byte_value, INT, "Value, if it is a byte.")                            \
    C(heap_graph_primitive, char_value, INT, "Code of the character, if the value is a char.")     \
    C(heap_graph_primitive, short_value, INT, "Value, if it is a short.")                          \
    C(heap_graph_primitive, int_value, INT, "Value, if it is an int.")                             \
    C(heap_graph_primitive, long_value, INT, "Value, if it is a long.")                            \
    C(heap_graph_primitive, float_value, REAL, "Value, if it is a float.")                         \
    C(heap_graph_primitive, double_value, REAL, "Value, if it is a double.")

#define COLUMNS_heap_graph_reference(K, C, G)                                                      \
    K(heap_graph_reference, id, "Row.")                                                            \
    C(heap_graph_reference, reference_set_id, INT, "Equal for the references of one object.")      \
    C(heap_graph_reference, owner_id, INT, "Object that has the reference.")                       \
    C(heap_graph_reference, owned_id, INT, "Object that the reference leads to; NULL: none.")      \
    C(heap_graph_reference, field_name, TEXT, "Field, with its class.")                            \
    C(heap_graph_reference, field_type_name, TEXT, "Type of the field.")                           \
    C(heap_graph_reference, deobfuscated_field_name, TEXT, "The field's name before obfuscation.")

#define COLUMNS_heap_profile(K, C, G)                                                              \
    K(heap_profile, id, "Row.")                                                                    \
    C(heap_profile, ts, INT, "Start of the time that the dump covers (ns).")                       \
    C(heap_profile, ts_end, INT, "End of the time that the dump covers (ns).")                     \
    C(heap_profile, dur, INT, "Length of the time that the dump covers (ns).")                     \
    C(heap_profile, upid, INT, "Process.")                                                         \
    C(heap_profile, heap_name, TEXT, "Allocator.")

#define COLUMNS_heap_profile_allocation(K, C, G)                                                   \
    K(heap_profile_allocation, id, "Row.")                                                         \
    C(heap_profile_allocation, ts, INT, "When the dump was taken (ns).")                           \
    C(heap_profile_allocation, upid, INT, "Process.")                                              \
    C(heap_profile_allocation, heap_name, TEXT, "Allocator.")                                      \
    C(heap_profile_allocation, callsite_id, INT, "Call stack, see stack_profile_callsite.")        \
    C(heap_profile_allocation, count, INT, "Allocations; negative: frees.")                        \
    C(heap_profile_allocation, size, INT, "Bytes; negative: freed.")

#define COLUMNS_malloc_arena(K, C, G)                                                              \
    K(malloc_arena, id, "Row.")                                                                    \
    C(malloc_arena, ts, INT, "Time of the reading (ns).")                                          \
    C(malloc_arena, upid, INT, "Process.")                                                         \
    C(malloc_arena, arena, INT,                                                                    \
      "Number of the arena, from 0; NULL: allocations that have a mapping of their own.")          \
    C(malloc_arena, system_bytes, INT, "Memory taken from the kernel.")                            \
    C(malloc_arena, max_system_bytes, INT,                                                         \
      "Maximum of system_bytes; NULL if the allocator does not keep it.")                          \
    C(malloc_arena, free_bytes, INT, "Free memory in the arena, its unused end included.")         \
    C(malloc_arena, free_chunks, INT, "Number of pieces of free_bytes.")                           \
    C(malloc_arena, fast_bytes, INT,                                                               \
      "Free memory that is not yet joined with the free memory beside it.")                        \
    C(malloc_arena, fast_chunks, INT, "Number of pieces of fast_bytes.")                           \
    C(malloc_arena, mapped_chunks, INT, "Allocations with a mapping of their own.")                \
    G(malloc_arena, used_bytes, INT, "system_bytes - free_bytes - fast_bytes",                     \
      "Memory in use, as far as the allocator knows: caches of threads count as used.")

#define COLUMNS_stack_profile_callsite(K, C, G)                                                    \
    K(stack_profile_callsite, id, "Row.")                                                          \
    C(stack_profile_callsite, depth, INT, "Distance from the outermost frame.")                    \
    C(stack_profile_callsite, parent_id, INT, "Call site of the caller.")                          \
    C(stack_profile_callsite, frame_id, INT, "Frame.")

#define COLUMNS_stack_profile_frame(K, C, G)                                                       \
    K(stack_profile_frame, id, "Row.")                                                             \
    C(stack_profile_frame, name, TEXT, "Function, as recorded.")                                   \
    C(stack_profile_frame, mapping, INT, "Mapping of the address.")                                \
    C(stack_profile_frame, rel_pc, INT, "Address, relative to the mapping.")                       \
    C(stack_profile_frame, symbol_set_id, INT, "Symbols, see stack_profile_symbol.")               \
    C(stack_profile_frame, deobfuscated_name, TEXT, "Function before obfuscation.")                \
    C(stack_profile_frame, type, TEXT, "Kind of code: native, interpreted, ...")

#define COLUMNS_stack_profile_mapping(K, C, G)                                                     \
    K(stack_profile_mapping, id, "Row.")                                                           \
    C(stack_profile_mapping, build_id, TEXT, "Build id of the file, in hex.")                      \
    C(stack_profile_mapping, exact_offset, INT, "Offset of the mapping in the file.")              \
    C(stack_profile_mapping, start_offset, INT, "Offset of the module in the file.")               \
    C(stack_profile_mapping, start, INT, "First address.")                                         \
    C(stack_profile_mapping, end, INT, "Address after the last.")                                  \
    C(stack_profile_mapping, load_bias, INT, "Difference of file and load addresses.")             \
    C(stack_profile_mapping, name, TEXT, "File.")

#define COLUMNS_stack_profile_symbol(K, C, G)                                                      \
    K(stack_profile_symbol, id, "Row.")                                                            \
    C(stack_profile_symbol, symbol_set_id, INT, "Symbols of one frame share this.")                \
    C(stack_profile_symbol, name, TEXT, "Function.")                                               \
    C(stack_profile_symbol, source_file, TEXT, "Source file.")                                     \
    C(stack_profile_symbol, line_number, INT, "Line in the source file.")                          \
    C(stack_profile_symbol, inlined, INT, "1 if the function was inlined.")

#define COLUMNS__profiler_async_context(K, C, G)                                                   \
    K(_profiler_async_context, id, "Context.")                                                     \
    C(_profiler_async_context, name, TEXT, "Name.")                                                \
    C(_profiler_async_context, kind, TEXT, "Kind of context: goroutine, fiber, ...")               \
    C(_profiler_async_context, parent_id, INT, "Parent context.")

#define COLUMNS__profiler_counter_set(K, C, G)                                                     \
    K(_profiler_counter_set, id, "Row.")                                                           \
    C(_profiler_counter_set, counter_set_id, INT, "Counters of one sample share this.")            \
    C(_profiler_counter_set, counter_id, INT, "Value, see counter.")

#define COLUMNS__profiler_execution_context(K, C, G)                                               \
    K(_profiler_execution_context, id, "Context.")                                                 \
    C(_profiler_execution_context, ucpu, INT, "Processor, see cpu.id.")                            \
    C(_profiler_execution_context, cpu_mode, TEXT, "user, kernel, hypervisor, ...")

#define COLUMNS__profiler_sample(K, C, G)                                                          \
    K(_profiler_sample, id, "Sample.")                                                             \
    C(_profiler_sample, ts, INT, "Time (ns).")                                                     \
    C(_profiler_sample, source, TEXT, "Recorder of the sample.")                                   \
    C(_profiler_sample, task_context_id, INT,                                                      \
      "Thread or task of the sample, see stack_sample_task_context.")                              \
    C(_profiler_sample, execution_context_id, INT,                                                 \
      "Processor and mode of the sample, see stack_sample_execution_context.")                     \
    C(_profiler_sample, callsite_id, INT, "Call stack, see stack_profile_callsite.")               \
    C(_profiler_sample, session_id, INT, "Session of the sample, see stack_sample_session.")       \
    C(_profiler_sample, unwind_error, TEXT, "Why the call chain is not complete.")                 \
    C(_profiler_sample, counter_set_id, INT, "Counters that were read with the sample.")           \
    C(_profiler_sample, utid, INT, "Thread.")                                                      \
    C(_profiler_sample, cpu, INT, "Processor.")                                                    \
    C(_profiler_sample, cpu_mode, TEXT, "user, kernel, hypervisor, ...")                           \
    C(_profiler_sample, process_priority, INT, "Priority of the process.")

#define COLUMNS__profiler_session(K, C, G)                                                         \
    K(_profiler_session, id, "Session.")                                                           \
    C(_profiler_session, source, TEXT, "Recorder of the samples.")                                 \
    C(_profiler_session, timebase_unit, TEXT, "Unit of the sampling interval.")                    \
    C(_profiler_session, cmdline, TEXT, "Command line that started the session.")

#define COLUMNS__profiler_task_context(K, C, G)                                                    \
    K(_profiler_task_context, id, "Context.")                                                      \
    C(_profiler_task_context, upid, INT, "Process.")                                               \
    C(_profiler_task_context, utid, INT, "Thread.")                                                \
    C(_profiler_task_context, async_context_id, INT,                                               \
      "Asynchronous context, see stack_sample_async_context.")
