// SPDX-License-Identifier: Apache-2.0
//
// The two services and their methods. A method's id on the wire is its position in the list,
// counted from 1, as in every Perfetto version so far. Clients use the ids in the answer to
// BindService, which lists them by name.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "protos/ipc/consumer_port.pb-c.h"
#include "protos/ipc/producer_port.pb-c.h"

struct ipc_method {
    const char *name;
    const ProtobufCMessageDescriptor *request, *reply;
};

struct ipc_service {
    const char *name;
    const struct ipc_method *methods; // with the ids 1, 2, ...
    uint32_t n_methods;
};

// X(constant, name on the wire, name in the generated code)
#define IPC_CONSUMER_METHODS(X)                                                                    \
    X(ENABLE_TRACING, EnableTracing, enable_tracing)                                               \
    X(DISABLE_TRACING, DisableTracing, disable_tracing)                                            \
    X(READ_BUFFERS, ReadBuffers, read_buffers)                                                     \
    X(FREE_BUFFERS, FreeBuffers, free_buffers)                                                     \
    X(FLUSH, Flush, flush)                                                                         \
    X(START_TRACING, StartTracing, start_tracing)                                                  \
    X(CHANGE_TRACE_CONFIG, ChangeTraceConfig, change_trace_config)                                 \
    X(DETACH, Detach, detach)                                                                      \
    X(ATTACH, Attach, attach)                                                                      \
    X(GET_TRACE_STATS, GetTraceStats, get_trace_stats)                                             \
    X(OBSERVE_EVENTS, ObserveEvents, observe_events)                                               \
    X(QUERY_SERVICE_STATE, QueryServiceState, query_service_state)                                 \
    X(QUERY_CAPABILITIES, QueryCapabilities, query_capabilities)                                   \
    X(SAVE_TRACE_FOR_BUGREPORT, SaveTraceForBugreport, save_trace_for_bugreport)                   \
    X(CLONE_SESSION, CloneSession, clone_session)

#define IPC_PRODUCER_METHODS(X)                                                                    \
    X(INITIALIZE_CONNECTION, InitializeConnection, initialize_connection)                          \
    X(REGISTER_DATA_SOURCE, RegisterDataSource, register_data_source)                              \
    X(UNREGISTER_DATA_SOURCE, UnregisterDataSource, unregister_data_source)                        \
    X(COMMIT_DATA, CommitData, commit_data)                                                        \
    X(GET_ASYNC_COMMAND, GetAsyncCommand, get_async_command)                                       \
    X(REGISTER_TRACE_WRITER, RegisterTraceWriter, register_trace_writer)                           \
    X(UNREGISTER_TRACE_WRITER, UnregisterTraceWriter, unregister_trace_writer)                     \
    X(NOTIFY_DATA_SOURCE_STARTED, NotifyDataSourceStarted, notify_data_source_started)             \
    X(NOTIFY_DATA_SOURCE_STOPPED, NotifyDataSourceStopped, notify_data_source_stopped)             \
    X(ACTIVATE_TRIGGERS, ActivateTriggers, activate_triggers)                                      \
    X(SYNC, Sync, sync)                                                                            \
    X(UPDATE_DATA_SOURCE, UpdateDataSource, update_data_source)

#define IPC_CONSUMER_CONSTANT(constant, name, code) IPC_CONSUMER_##constant,
#define IPC_PRODUCER_CONSTANT(constant, name, code) IPC_PRODUCER_##constant,

enum ipc_consumer_method {
    IPC_CONSUMER_NONE,
    IPC_CONSUMER_METHODS(IPC_CONSUMER_CONSTANT) IPC_CONSUMER_END,
};

enum ipc_producer_method {
    IPC_PRODUCER_NONE,
    IPC_PRODUCER_METHODS(IPC_PRODUCER_CONSTANT) IPC_PRODUCER_END,
};

extern const struct ipc_service ipc_consumer_service, ipc_producer_service;

// Returns the method with this id, or NULL.
const struct ipc_method *ipc_service_method(const struct ipc_service *service, uint32_t id);

// Returns the id of `name`, or 0.
uint32_t ipc_service_find(const struct ipc_service *service, const char *name);
