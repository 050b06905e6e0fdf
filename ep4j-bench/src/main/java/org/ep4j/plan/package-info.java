/**
 * Predicts what dispatch and combine take on a machine that need not exist here: traffic of a
 * routing, a model of its time, and the memory of a buffer. Pure functions and immutable values;
 * nothing is measured.
 */
@NullMarked
package org.ep4j.plan;

import org.jspecify.annotations.NullMarked;
