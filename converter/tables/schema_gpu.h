// SPDX-License-Identifier: Apache-2.0
//
// The tables of GPUs. schema.h explains the lists.
#pragma once

#define GPU_TABLE_LIST(T)                                                                          \
    T(gpu, "GPUs that the trace mentions.")                                                        \
    T(gpu_counter_group, "Groups of the counters of GPUs.")                                        \
    T(vulkan_memory_allocations, "Memory that Vulkan drivers and programs allocate, free and "     \
                                 "bind.")

#define COLUMNS_gpu(K, C, G)                                                                       \
    K(gpu, id, "Unique number of the GPU.")                                                        \
    G(gpu, ugpu, INT, "id", "The same as id.")                                                     \
    C(gpu, gpu, INT, "Number of the GPU on its machine.")                                          \
    C(gpu, name, TEXT, "Name.")                                                                    \
    C(gpu, vendor, TEXT, "Maker.")                                                                 \
    C(gpu, model, TEXT, "Model.")                                                                  \
    C(gpu, architecture, TEXT, "Architecture.")                                                    \
    C(gpu, uuid, TEXT, "UUID, in hexadecimal.")                                                    \
    C(gpu, pci_bdf, TEXT, "Address on the PCI bus.")                                               \
    C(gpu, machine_id, INT, "Machine.")                                                            \
    C(gpu, arg_set_id, INT, "Further values, see args.")

#define COLUMNS_gpu_counter_group(K, C, G)                                                         \
    K(gpu_counter_group, id, "Row.")                                                               \
    C(gpu_counter_group, group_id, INT,                                                            \
      "Number of the group: 0 unclassified, 1 system, 2 vertices, 3 fragments, 4 primitives, 5 "   \
      "memory, 6 compute, 7 ray tracing; for others see name.")                                    \
    C(gpu_counter_group, track_id, INT, "Counter, see gpu_counter_track.")                         \
    C(gpu_counter_group, name, TEXT, "Name of the group, if the trace has one.")                   \
    C(gpu_counter_group, description, TEXT, "Description of the group.")

#define COLUMNS_vulkan_memory_allocations(K, C, G)                                                 \
    K(vulkan_memory_allocations, id, "Row.")                                                       \
    C(vulkan_memory_allocations, arg_set_id, INT, "Further values, see args.")                     \
    C(vulkan_memory_allocations, source, TEXT,                                                     \
      "Source: DRIVER, DEVICE, GPU_DEVICE_MEMORY, GPU_BUFFER or GPU_IMAGE.")                       \
    C(vulkan_memory_allocations, operation, TEXT,                                                  \
      "CREATE, DESTROY, BIND, DESTROY_BOUND or ANNOTATIONS.")                                      \
    C(vulkan_memory_allocations, timestamp, INT, "Time (ns).")                                     \
    C(vulkan_memory_allocations, upid, INT, "Process.")                                            \
    C(vulkan_memory_allocations, device, INT, "Handle of the device.")                             \
    C(vulkan_memory_allocations, device_memory, INT, "Handle of the memory.")                      \
    C(vulkan_memory_allocations, memory_type, INT, "Type of the memory.")                          \
    C(vulkan_memory_allocations, heap, INT, "Heap of the memory.")                                 \
    C(vulkan_memory_allocations, function_name, TEXT, "Function of Vulkan.")                       \
    C(vulkan_memory_allocations, object_handle, INT, "Handle of the object.")                      \
    C(vulkan_memory_allocations, memory_address, INT, "Address.")                                  \
    C(vulkan_memory_allocations, memory_size, INT, "Bytes.")                                       \
    C(vulkan_memory_allocations, scope, TEXT,                                                      \
      "Lifetime of the allocation: COMMAND, OBJECT, CACHE, DEVICE or INSTANCE.")
