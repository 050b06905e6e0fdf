/** Example programs. */
module org.ep4j.examples {
  requires org.ep4j;
  requires static org.jspecify;
}
