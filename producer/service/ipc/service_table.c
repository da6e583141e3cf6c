// SPDX-License-Identifier: Apache-2.0
//
// The lists in the header are the only source of ids, names and message types. The unit test
// compares them with the published list.
#include "producer/service/ipc/service_table.h"

#include "common/str.h"

#define METHOD(constant, wire_name, code)                                                          \
    {#wire_name, &pb__##code##_request__descriptor, &pb__##code##_response__descriptor},

static const struct ipc_method consumer_methods[] = {IPC_CONSUMER_METHODS(METHOD)};
static const struct ipc_method producer_methods[] = {IPC_PRODUCER_METHODS(METHOD)};

const struct ipc_service ipc_consumer_service = {
    "ConsumerPort",
    consumer_methods,
    IPC_CONSUMER_END - 1,
};

const struct ipc_service ipc_producer_service = {
    "ProducerPort",
    producer_methods,
    IPC_PRODUCER_END - 1,
};

const struct ipc_method *ipc_service_method(const struct ipc_service *service, uint32_t id)
{
    return id > 0 && id <= service->n_methods ? &service->methods[id - 1] : NULL;
}

uint32_t ipc_service_find(const struct ipc_service *service, const char *name)
{
    for (uint32_t i = 0; i < service->n_methods; i++) {
        if (str_eq(service->methods[i].name, name))
            return i + 1;
    }
    return 0;
}
