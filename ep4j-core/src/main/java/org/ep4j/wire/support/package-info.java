/** Common parts of wires: argument checks, work in flight, regions, and collective set-up. */
@NullMarked
package org.ep4j.wire.support;

import org.jspecify.annotations.NullMarked;
