// SPDX-License-Identifier: Apache-2.0
//
// The rules of the verdict. Each rule reads the trace and adds its findings, if any.
#pragma once

#include "converter/verdict/reclaim.h"
#include "converter/verdict/subject.h"

void rule_kill(struct subject *subject);
void rule_loss(struct subject *subject);
void rule_pressure(struct subject *subject, const struct reclaim *reclaim);
void rule_stall(struct subject *subject, const struct reclaim *reclaim);
void rule_growth(struct subject *subject, bool was_short);
void rule_return(struct subject *subject);
void rule_quiet(struct subject *subject, const struct reclaim *reclaim);
