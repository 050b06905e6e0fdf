/**
 * Simulates a planned dispatch and combine event by event: chunks of rows on their route over SMs,
 * NVLink, NICs and memory, rings with a finite number of slots, and ranks that are slow or late.
 * Deterministic and single-threaded; nothing is measured but the time of the simulation itself.
 */
@NullMarked
package org.ep4j.plan.simulation;

import org.jspecify.annotations.NullMarked;
