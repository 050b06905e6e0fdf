/** What wires have in common: checks of arguments, work under way, regions, agreement at set-up. */
@NullMarked
package org.ep4j.wire.support;

import org.jspecify.annotations.NullMarked;
