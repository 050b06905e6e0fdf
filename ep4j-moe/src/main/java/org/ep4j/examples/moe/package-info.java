/** Programs to start from. */
@NullMarked
package org.ep4j.examples.moe;

import org.jspecify.annotations.NullMarked;
