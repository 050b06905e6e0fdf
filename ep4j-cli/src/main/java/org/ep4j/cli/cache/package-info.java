/** The commands for the cache of compiled kernels. */
@NullMarked
package org.ep4j.cli.cache;

import org.jspecify.annotations.NullMarked;
