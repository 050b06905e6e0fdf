/**
 * Low-latency operations as every engine shows them: the order of checks, at most two operations in
 * flight, hooks, and results that stay readable until the second next operation of their kind.
 */
@NullMarked
package org.ep4j.engine.lowlatency;

import org.jspecify.annotations.NullMarked;
