/** Bindings of UCP: functions, structures, constants, status codes. */
@NullMarked
package org.ep4j.rdma.ucx.bindings;

import org.jspecify.annotations.NullMarked;
