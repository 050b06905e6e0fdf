/**
 * Errors: each has a stable {@link org.ep4j.error.ErrorCode}, the value and the limit, and what to
 * do.
 */
@NullMarked
package org.ep4j.error;

import org.jspecify.annotations.NullMarked;
