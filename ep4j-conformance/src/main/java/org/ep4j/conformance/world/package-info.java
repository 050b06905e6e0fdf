/** Worlds of test ranks: threads, processes and their arguments, deadlines and scale. */
@NullMarked
package org.ep4j.conformance.world;

import org.jspecify.annotations.NullMarked;
