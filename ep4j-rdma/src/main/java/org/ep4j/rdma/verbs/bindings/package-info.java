/** Bindings of libibverbs: functions, structures, constants, errors. */
@NullMarked
package org.ep4j.rdma.verbs.bindings;

import org.jspecify.annotations.NullMarked;
