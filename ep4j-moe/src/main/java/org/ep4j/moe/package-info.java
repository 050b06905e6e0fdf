/** A Mixture-of-Experts layer whose experts are spread over the ranks of a group. */
@NullMarked
package org.ep4j.moe;

import org.jspecify.annotations.NullMarked;
