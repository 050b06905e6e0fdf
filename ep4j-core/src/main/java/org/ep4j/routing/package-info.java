/** Which experts a token goes to, and on which ranks experts and their replicas lie. */
@NullMarked
package org.ep4j.routing;

import org.jspecify.annotations.NullMarked;
