/** The kit that every wire must pass, and a wire that injects faults into any other. */
@NullMarked
package org.ep4j.conformance.wire;

import org.jspecify.annotations.NullMarked;
