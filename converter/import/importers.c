// SPDX-License-Identifier: Apache-2.0
//
// The kinds of packets that are converted, one row for each kind.
#include <stdint.h>

#include "common/elements.h"
#include "converter/import/importer.h"

#define PACKET_KINDS(I)                                                                            \
    I(android_log)                                                                                 \
    I(battery)                                                                                     \
    I(cpu_info)                                                                                    \
    I(display_state)                                                                               \
    I(gpu_memory)                                                                                  \
    I(clone_trigger)                                                                               \
    I(foreign_mapping)                                                                             \
    I(foreign_perf_event)                                                                          \
    I(foreign_problems)                                                                            \
    I(foreign_sample)                                                                              \
    I(foreign_task)                                                                                \
    I(simpleperf_file)                                                                             \
    I(simpleperf_record)                                                                           \
    I(ftrace)                                                                                      \
    I(ftrace_stats)                                                                                \
    I(process_stats)                                                                               \
    I(process_tree)                                                                                \
    I(generic_cpu_frequency)                                                                       \
    I(generic_process_tree)                                                                        \
    I(generic_task_rename)                                                                         \
    I(generic_task_state)                                                                          \
    I(profile_packet)                                                                              \
    I(recording_cut)                                                                               \
    I(service_event)                                                                               \
    I(sys_stats)                                                                                   \
    I(system_info)                                                                                 \
    I(trace_config)                                                                                \
    I(trace_stats)                                                                                 \
    I(json_event)                                                                                  \
    I(json_fact)                                                                                   \
    I(trace_uuid)                                                                                  \
    I(translation_problems)                                                                        \
    I(track_descriptor)                                                                            \
    I(track_event)                                                                                 \
    I(trigger)                                                                                     \
    I(page_residency)                                                                              \
    I(perf_sample)                                                                                 \
    I(stack_sample)                                                                                \
    I(streaming_profile)                                                                           \
    I(smaps)                                                                                       \
    I(malloc_info)                                                                                 \
    I(heap_graph)                                                                                  \
    I(memory_snapshot)                                                                             \
    I(packages_list)                                                                               \
    I(perf_map)                                                                                    \
    I(module_symbols)                                                                              \
    I(deobfuscation_mapping)                                                                       \
    I(extension_descriptor)                                                                        \
    I(process_descriptor)                                                                          \
    I(thread_descriptor)                                                                           \
    I(cpu_per_uid)                                                                                 \
    I(energy_breakdown)                                                                            \
    I(entity_state)                                                                                \
    I(kernel_wakelocks)                                                                            \
    I(power_rails)                                                                                 \
    I(system_properties)                                                                           \
    I(game_interventions)                                                                          \
    I(users)                                                                                       \
    I(aconfig_flags)                                                                               \
    I(network_packet)                                                                              \
    I(network_bundle)                                                                              \
    I(journald)                                                                                    \
    I(gpu_counters)                                                                                \
    I(gpu_frequency)                                                                               \
    I(gpu_info)                                                                                    \
    I(gpu_log)                                                                                     \
    I(render_stages)                                                                               \
    I(vulkan_api)                                                                                  \
    I(vulkan_memory)                                                                               \
    I(frame_timeline)                                                                              \
    I(graphics_frames)                                                                             \
    I(chrome_benchmark)                                                                            \
    I(chrome_metadata)                                                                             \
    I(chrome_trigger)                                                                              \
    I(range_of_interest)                                                                           \
    I(statsd_atom)                                                                                 \
    I(trace_attributes)                                                                            \
    I(ui_state)                                                                                    \
    I(translation_table)                                                                           \
    I(trace_provenance)                                                                            \
    I(modem_events)                                                                                \
    I(modem_texts)                                                                                 \
    I(art_process_metadata)                                                                        \
    I(concurrent_sessions)                                                                         \
    I(etw)                                                                                         \
    I(v8_js_code)                                                                                  \
    I(v8_internal_code)                                                                            \
    I(v8_wasm_code)                                                                                \
    I(v8_regexp_code)                                                                              \
    I(v8_code_move)                                                                                \
    I(metatrace)                                                                                   \
    I(interrupts)                                                                                  \
    I(inodes)                                                                                      \
    I(chrome_events)

// States that importers share. The states write their own rows in this order.
#define SHARED_STATES(I)                                                                           \
    I(stacks)                                                                                      \
    I(sched)                                                                                       \
    I(process_counters)                                                                            \
    I(samples)                                                                                     \
    I(packages)                                                                                    \
    I(gpus)                                                                                        \
    I(json)

#define DECLARED(name) extern const struct importer importer_##name;
PACKET_KINDS(DECLARED)
SHARED_STATES(DECLARED)

#define ROW(name) &importer_##name,
const struct importer *const importers[] = {PACKET_KINDS(ROW) SHARED_STATES(ROW)};
const size_t n_importers = ELEMENTS(importers);
_Static_assert(ELEMENTS(importers) <= UINT8_MAX,
               "importer_of in struct import holds the number plus 1");
